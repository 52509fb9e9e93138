package exchange

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// recorded are the headers about a response's content.
var recorded = []string{"Content-Type", "Link", "Retry-After", "X-Total-Count", "X-WP-Total", "X-WP-TotalPages"}

// record passes one response to Options.Record, without compression and without the secrets that
// were sent, which a CMS may repeat in its links.
func (c *Client) record(want Request, resp *http.Response, authorization string, body []byte) {
	if strings.Contains(resp.Header.Get("Content-Encoding"), "gzip") {
		if unpacked, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			if plainBody, err := io.ReadAll(io.LimitReader(unpacked, want.Limit.Most)); err == nil {
				body = plainBody
			}
		}
	}
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "HTTP/1.1 %d %s\r\n", resp.StatusCode, http.StatusText(resp.StatusCode))
	for _, name := range append(recorded, want.Totals) {
		for _, value := range resp.Header.Values(name) {
			fmt.Fprintf(&raw, "%s: %s\r\n", name, value)
		}
	}
	raw.WriteString("\r\n")
	raw.Write(body)
	out := raw.Bytes()
	for _, secret := range c.secrets(want, authorization) {
		out = bytes.ReplaceAll(out, []byte(secret), []byte("********"))
	}
	c.options.Record(strings.TrimSuffix(fileName(want), ".json")+".http", out)
}

// secrets are the secret values of a request.
func (c *Client) secrets(want Request, authorization string) (all []string) {
	const shortest = 4 // a shorter value would match everywhere
	_, token, _ := strings.Cut(authorization, " ")
	all = []string{authorization, token}
	for _, headers := range []map[string]string{c.options.Headers, want.Headers} {
		for name, value := range headers {
			if secretive.MatchString(name) {
				all = append(all, value)
			}
		}
	}
	if c.files == nil {
		for name, values := range c.target(want).Query() {
			if secretive.MatchString(name) {
				all = append(all, values...)
			}
		}
	}
	return slices.DeleteFunc(all, func(value string) bool { return len(value) < shortest })
}
