package service

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"vitrine/config"
	"vitrine/proxy/listen"
)

// cannotListen explains err with the setting called key, whose value is the address after scheme.
func cannotListen(key, scheme, address string, err error) error {
	s, _ := config.Lookup(key)
	problem, other := "cannot be listened on: "+err.Error(), nextAddress(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		problem = "is in use by another process"
	case errors.Is(err, syscall.EACCES):
		problem = "needs privileges that this process does not have"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		problem, other = "is not an address of this machine", s.Default
	}
	return fmt.Errorf("%s: %s %s; set %s or --%s, e.g. --%s %s", s.Env, address, problem, s.Env, s.Flag, s.Flag, scheme+strings.TrimPrefix(other, scheme))
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
