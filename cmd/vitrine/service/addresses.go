package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"vitrine/config"
	"vitrine/proxy/listen"
)

// openAddresses opens the addresses of a configuration. At a reload they stay, and the certificate
// is read again.
func (p *process) openAddresses(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	if p.public != nil {
		if p.certificate == nil {
			return nil
		}
		if err := p.certificate.Read(ctx); err != nil {
			return cfg.Refuse("tls.cert_file", err)
		}
		return nil
	}
	return errors.Join(p.openPublic(ctx, cfg, log), p.openOperator(ctx, cfg, log))
}

// openPublic opens the public address, or takes the socket that systemd has opened.
func (p *process) openPublic(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	if p.certificate, err = NewCertificate(cfg, log); err != nil {
		return err
	}
	var secure *tls.Config
	if p.certificate != nil {
		secure = p.certificate.Config()
	}
	passed, err := inherited()
	if err != nil {
		return err
	}
	socket := listen.Take(passed, log)
	if passed == nil {
		if socket, err = listen.Open(ctx, cfg.Listen, log); err != nil {
			return cannotListen("listen", err)
		}
	}
	p.public, p.sockets = listen.New(socket, secure), append(p.sockets, socket)
	return nil
}

// openOperator opens the operator's address, unless it is off.
func (p *process) openOperator(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	if cfg.Admin.Listen == "" {
		return nil
	}
	if p.operator, err = listen.Open(ctx, cfg.Admin.Listen, log); err != nil {
		return cannotListen("admin.listen", err)
	}
	p.sockets = append(p.sockets, p.operator)
	return nil
}

// closeAddresses closes the addresses that are open.
func (p *process) closeAddresses() error {
	var errs []error
	for _, s := range p.sockets {
		if err := s.Close(); !errors.Is(err, net.ErrClosed) { // draining has closed the public one
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// NewCertificate reads the configured certificate; nil without TLS.
func NewCertificate(cfg config.Config, log *slog.Logger) (*listen.Certificate, error) {
	if cfg.TLS.CertFile == "" {
		return nil, nil //nolint:nilnil // see above
	}
	certificate, err := listen.NewCertificate(cfg.TLS.CertFile, cfg.TLS.KeyFile, log)
	if err != nil {
		return nil, cfg.Refuse("tls.cert_file", err)
	}
	return certificate, nil
}

// cannotListen is an error of opening the address in the setting called key.
func cannotListen(key string, err error) error {
	s, _ := config.Lookup(key)
	return fmt.Errorf("%s: %w", s.Env, err)
}

// BaseURL is the URL of a listener for a client on this machine.
func BaseURL(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", errors.New("a port chosen at start-up is unknown here")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// urlOf is the URL of l for a client on this machine: with the configured host and the actual port.
func urlOf(configured string, l net.Listener) string {
	host, _, _ := net.SplitHostPort(configured)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil { // a unix socket
		return l.Addr().String()
	}
	base, _ := BaseURL(net.JoinHostPort(host, port))
	return base
}
