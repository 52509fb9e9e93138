package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"vitrine/config"
)

// listen opens the address that the setting called key has. Its error says
// which setting to change.
func listen(ctx context.Context, key, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cannotListen(key, "", address, err)
	}
	return l, nil
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
