package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"syscall"

	"vitrine/config"
	"vitrine/proxy/listen"
)

// openPublic opens the public address, with TLS if certificate is not nil.
func (p *process) openPublic(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *listen.Listener, certificate *listen.Certificate, err error) {
	var secure *tls.Config
	if cfg.TLS.CertFile != "" {
		if certificate, err = listen.NewCertificate(listen.CertificateOptions{
			CertFile: cfg.TLS.CertFile, KeyFile: cfg.TLS.KeyFile, Logger: log,
		}); err != nil {
			return nil, nil, cfg.Refuse("tls.cert_file", err)
		}
		secure = certificate.Config()
	}
	socket, err := p.socket(ctx, "listen", cfg.Listen, log)
	if err != nil {
		return nil, nil, err
	}
	return socket.Listen(secure), certificate, nil
}

// isSystemError reports whether the system refused, rather than the configuration being wrong.
func isSystemError(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// cannotListen explains err with the setting called key, whose value is the address after scheme.
func cannotListen(key, scheme, address string, err error) error {
	problem := "cannot be listened on: " + err.Error()
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		problem = "is in use by another process"
	case errors.Is(err, syscall.EACCES):
		problem = "needs privileges that this process does not have"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		problem = "is not an address of this machine"
	}
	for _, s := range config.Settings() {
		if s.Key == key {
			return fmt.Errorf("%s: %s %s; set %s or --%s, e.g. --%s %s",
				s.Env, address, problem, s.Env, s.Flag, s.Flag, scheme+nextAddress(address))
		}
	}
	return fmt.Errorf("%s %s", address, problem)
}

// nextAddress is an address to try instead: the next port, above the privileged ones.
func nextAddress(address string) string {
	if path, ok := listen.SocketPath(address); ok {
		return "unix:" + strings.TrimSuffix(path, ".sock") + "-2.sock"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	n, err := strconv.Atoi(port)
	if err != nil || n >= 65535 {
		return net.JoinHostPort(host, "0")
	}
	if n < 1024 {
		n += 8000
	}
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}
