package config

import (
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
)

// IsLoopback reports whether only this machine reaches the admin address.
func (a Admin) IsLoopback() bool {
	host, _, err := net.SplitHostPort(a.Listen)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// tokenName is that of the file beside the last good documents.
const tokenName = "admin-token"

// keepToken has the token of an admin address that needs one, and for which no place is set, in a
// file beside the last good documents.
func (l *loader) keepToken() {
	if a := l.Admin; a.Listen != "" && !a.IsLoopback() && a.Token.Reveal()+a.TokenFile == "" && l.LastGood != "" && !l.wrong("admin.listen") && !l.wrong("admin.token") {
		l.Admin.TokenFile = filepath.Join(l.LastGood, tokenName)
		l.places["admin.token"], l.places["admin.token_file"] = place{}, l.places["last_good"]
	}
}

// MakeToken makes the token of an admin address that needs one and has none, and keeps it in
// admin.token_file for later starts and for commands. Made is the one that this process has made
// before, or then becomes it: without a file it is in memory alone.
func (c *Config) MakeToken(made *Secret) error {
	path := c.Admin.TokenFile
	if c.Admin.Listen == "" || c.Admin.Token.Reveal() != "" || c.Admin.IsLoopback() && path == "" {
		return nil
	}
	if made.Reveal() == "" {
		*made = NewSecret(rand.Text())
		c.made = *made
	}
	if c.Admin.Token = *made; path == "" {
		return nil
	}
	err := keep(path, made.Reveal())
	if errors.Is(err, os.ErrExist) { // another process has made one meanwhile
		var kept string
		kept, err = readSecret(path)
		c.Admin.Token, *made = NewSecret(kept), Secret{}
	}
	if err != nil {
		return c.Refuse("admin.token_file", cause(err))
	}
	return nil
}

// HasMadeToken reports whether the token of the admin address was made for this configuration.
func (c Config) HasMadeToken() bool { return c.made.Reveal() != "" && c.made.Equal(c.Admin.Token) }

// keep writes a file that only this user reads, whole or not at all, unless there is one.
func keep(path, text string) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+tokenName+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(text + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Link(file.Name(), path)
	}
	return errors.Join(err, os.Remove(file.Name()))
}
