package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"vitrine/config"
	"vitrine/proxy/listen"
	"vitrine/upstream/shape"
)

// routes are the public paths.
var routes = map[shape.Resource]string{
	shape.Catalogue: "/gvapp/",
	shape.Rules:     "/cms/rules/",
	shape.Banners:   "/gvapp/singlebanner",
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
	s, _ := config.Lookup(key)
	return fmt.Errorf("%s: %s %s; set %s or --%s, e.g. --%s %s", s.Env, address, problem, s.Env, s.Flag, s.Flag, scheme+nextAddress(address))
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

// baseURL is the URL of a listener for a client on this machine.
func baseURL(listen string) (string, error) {
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
	host, _, err := net.SplitHostPort(configured)
	if err != nil {
		host = ""
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return l.Addr().String()
	}
	base, err := baseURL(net.JoinHostPort(host, port))
	if err != nil {
		return l.Addr().String()
	}
	return base
}
