package config

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// A token is compared with what anybody may send as often as he likes, so that
// a short one is as good as none.
const (
	shortestToken = 8
	longestToken  = 512
)

// checkToken allows what can be sent as a bearer's token and typed as a password.
func checkToken(text string) error {
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("it has a space or a character that no header may hold")
	case len(text) < shortestToken || len(text) > longestToken:
		return fmt.Errorf("it has %d characters", len(text))
	}
	return nil
}

// exposed finds an operator's address that others reach, and that asks for no
// token. Where a token was given and is no good, that is reported already.
func (p *parsing) exposed() []error {
	if c := p.config.Admin; c.Listen == "" || c.Token.Reveal() != "" || c.IsLoopback() || p.given["admin.token_file"].Text != "" {
		return nil
	}
	return []error{mistake(p.given["admin.listen"], fmt.Sprintf(
		"want a token in VITRINE_ADMIN_TOKEN for an address that others reach, or one that they do not, such as 127.0.0.1:9090; got %q and no token",
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
