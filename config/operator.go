package config

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Anybody can try tokens without limit, so a short one protects nothing.
const (
	shortestToken = 8
	longestToken  = 512
)

// checkToken allows tokens that can be sent as a bearer token and typed as a password.
func checkToken(text string) error {
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("it has a space or a character not allowed in a header")
	case len(text) < shortestToken || len(text) > longestToken:
		return fmt.Errorf("it has %d characters", len(text))
	}
	return nil
}

// exposed finds an operator's address that is not loopback and has no token. An invalid token is
// reported elsewhere.
func (p *parsing) exposed() []error {
	if c := p.config.Admin; c.Listen == "" || c.Token.Reveal() != "" || c.IsLoopback() || p.given["admin.token_file"].Text != "" {
		return nil
	}
	return []error{mistake(p.given["admin.listen"], fmt.Sprintf(
		"want a token in VITRINE_ADMIN_TOKEN, or a loopback address such as 127.0.0.1:9090; got %q and no token",
		p.config.Admin.Listen))}
}

// IsLoopback reports whether only this machine reaches the operator's address.
func (a Admin) IsLoopback() bool {
	host, _, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
