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

// openListener opens the address that the setting called key has. Its error
// says which setting to change.
func openListener(ctx context.Context, key, address string) (net.Listener, error) {
	l, err := listen.Open(ctx, address)
	if err != nil {
		return nil, cannotListen(key, "", address, err)
	}
	return l, nil
}

// openPublic opens the public address, behind TLS if there is a certificate
// for it, which is nil otherwise.
func openPublic(ctx context.Context, cfg config.Config, log *slog.Logger) (net.Listener, *listen.Certificate, error) {
	var certificate *listen.Certificate
	if cfg.TLS.CertFile != "" {
		var err error
		if certificate, err = listen.NewCertificate(listen.CertificateOptions{
			CertFile: cfg.TLS.CertFile, KeyFile: cfg.TLS.KeyFile, Logger: log,
		}); err != nil {
			return nil, nil, cfg.Refuse("tls.cert_file", err)
		}
	}
	l, err := openListener(ctx, "listen", cfg.Listen)
	if err != nil || certificate == nil {
		return l, nil, err
	}
	return tls.NewListener(l, certificate.Config()), certificate, nil
}

// cannotListen explains err with the setting called key, whose value is the
// address behind scheme.
func cannotListen(key, scheme, address string, err error) error {
	problem := "cannot be listened on: " + err.Error()
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		problem = "is in use by another process"
	case errors.Is(err, syscall.EACCES):
		problem = "needs rights that this process does not have"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		problem = "is no address of this machine"
	}
	for _, s := range config.Settings() {
		if s.Key == key {
			return fmt.Errorf("%s: %s %s; set %s or --%s, e.g. --%s %s",
				s.Env, address, problem, s.Env, s.Flag, s.Flag, scheme+nextAddress(address))
		}
	}
	return fmt.Errorf("%s %s", address, problem)
}

// nextAddress is an address to try instead: the next port, and one above the
// ports that need rights.
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
