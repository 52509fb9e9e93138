package exchange

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"vitrine/upstream/plain"
)

// shortest is the length of a secret that is found also within words.
const shortest = 4

// Redact replaces each secret, however it is encoded: in a URL, in JSON, in HTML, or in the base64
// of basic authorization. A secret of fewer than four bytes would be found everywhere, and stays.
func Redact(in []byte, secrets []string) []byte {
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if len(form) >= shortest {
				in = anyEncoding(form).ReplaceAll(in, []byte(masked))
			}
		}
	}
	return in
}

const masked = "********"

// forms are a secret, and what it is made of if it is a value of Authorization.
func forms(secret string) []string {
	all := []string{secret}
	scheme, token, hasToken := strings.Cut(secret, " ")
	if hasToken {
		all = append(all, token)
	}
	if pair, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(pair), ":")
		all = append(all, string(pair), password)
	}
	return all
}

// Redact masks in a message every secret that the CMS was sent: also one that is cut off by an
// ellipsis, ours or that of jq, and as a word one of fewer than four bytes. It shortens the message
// only then: a secret that is cut off where it is escaped would not be found.
func (c *Client) Redact(text string) string {
	secrets := append([]string{c.options.Authorization}, c.options.Secrets...)
	if login := c.options.Login; login != nil {
		secrets = append(secrets, login.tokens()...)
	}
	text = string(Redact([]byte(text), secrets))
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if form != "" && len(form) < shortest {
				text = regexp.MustCompile(`(^|\W)`+regexp.QuoteMeta(form)+`($|\W)`).ReplaceAllString(text, "${1}"+masked+"${2}")
			}
			for _, cut := range []string{"…", " ..."} {
				for n := len(form) - 1; n >= shortest && strings.Contains(text, cut); n-- {
					text = strings.ReplaceAll(text, form[:n]+cut, masked+cut)
				}
			}
		}
	}
	return plain.Clip(text, 1000)
}

// Query is that of a request as a person reads it, its secrets masked.
func (c *Client) Query(want Request) string {
	text, err := url.QueryUnescape(c.target(want).RawQuery)
	if err != nil || text == "" {
		return ""
	}
	return plain.Clip("?"+c.Redact(text), 300)
}

// anyEncoding matches a text of which each character is as it is, or escaped as in a URL, in JSON
// or in HTML, or first the one and then the other.
func anyEncoding(text string) *regexp.Regexp {
	var pattern strings.Builder
	pattern.WriteString("(?i)")
	for _, r := range text {
		percent, unicode := "", ""
		for _, b := range []byte(string(r)) {
			percent += fmt.Sprintf(`(?:%%|\\u0025)%02x`, b)
		}
		if r <= 0xffff {
			unicode = fmt.Sprintf(`|\\u%04x`, r)
		}
		fmt.Fprintf(&pattern, `(?:\\?%s|%s%s|&#%d;|&#x0*%x;%s)`, regexp.QuoteMeta(string(r)), percent, unicode, r, r, named[r])
	}
	return regexp.MustCompile(pattern.String())
}

// named are the further forms of some characters.
var named = map[rune]string{'&': "|&amp;", '<': "|&lt;", '>': "|&gt;", '"': "|&quot;", '\'': "|&apos;", ' ': `|\+`}
