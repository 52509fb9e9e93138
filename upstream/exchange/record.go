package exchange

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
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
	c.options.Record(strings.TrimSuffix(fileName(want), ".json")+".http", Redact(raw.Bytes(), append([]string{authorization}, c.options.Secrets...)))
}
