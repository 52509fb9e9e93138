package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// fieldReasons say why each field of a hit is there.
var fieldReasons = map[string]string{
	"Date":                          "required of an origin (RFC 9110, 6.6.1)",
	"Content-Length":                "frames the body",
	"Last-Modified":                 "validator for clients without entity-tags; freshness of the stored copy",
	"Age":                           "a cache reckons freshness from it (RFC 9111, 4.2.3)",
	"Cache-Control":                 "how long browsers keep it; a 304 renews it",
	"CDN-Cache-Control":             "the same for CDNs, which can be purged and so may keep it longer (RFC 9213)",
	"Cache-Status":                  "hit or miss and what is left, for whoever looks (RFC 9211)",
	"ETag":                          "validator; required on a 304",
	"Vary":                          "required for a shared cache to choose right, on a 304 too",
	"Cache-Groups":                  "what a CDN is purged by (RFC 9875)",
	"Allow":                         "Django REST Framework sends it with each 200",
	"Content-Type":                  "says that it is JSON",
	"Content-Encoding":              "says how the body is compressed",
	"X-Content-Type-Options":        "keeps a browser from guessing another type",
	"Content-Security-Policy":       "an answer shown as a page can do nothing, and cannot be framed",
	"Cross-Origin-Resource-Policy":  "who may embed it",
	"Access-Control-Allow-Origin":   "lets pages of other origins read it, a 304 to a page's own condition included",
	"Access-Control-Expose-Headers": "lets them read ETag, Age, Cache-Status, Retry-After and X-Request-Id",
	"Timing-Allow-Origin":           "lets them read how long a request took",
}

// header lists the fields of a hit, with the bytes of each line.
func header(l *lab, _ settings, r *report) error {
	p, err := started(l.startVitrine(embedded))
	if err != nil {
		return err
	}
	defer p.stop()
	lines := map[string][2]int{} // by field, of the 200 and the 304
	var order []string
	var totals [2]int
	if _, _, err := get("http://"+p.addr+rules, nil); err != nil { // a miss
		return err
	}
	time.Sleep(time.Second) // what was fetched is known not to have been purged meanwhile
	for i, condition := range []string{"", "If-None-Match: *\r\n"} {
		head, err := headOf(p.addr, condition)
		if err != nil {
			return err
		}
		totals[i] = len(head)
		for line := range strings.Lines(head) {
			name, _, ok := strings.Cut(line, ": ")
			if !ok {
				continue
			}
			sizes, known := lines[name]
			if !known {
				order = append(order, name)
			}
			sizes[i] = len(line)
			lines[name] = sizes
		}
	}
	t := table{Name: "header", Head: []string{"field", "bytes in a 200", "in a 304", "why"}}
	cell := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	for _, name := range order {
		t.Rows = append(t.Rows, []string{name, cell(lines[name][0]), cell(lines[name][1]), fieldReasons[name]})
	}
	t.Rows = append(t.Rows, []string{"all, with the status line", fmt.Sprint(totals[0]), fmt.Sprint(totals[1]), ""})
	r.add(t)
	return nil
}

// headOf is the header of an answer, to a browser's request.
func headOf(addr, condition string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	var request strings.Builder
	fmt.Fprintf(&request, "GET %s HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n%s", rules, condition)
	for _, f := range browser {
		fmt.Fprintf(&request, "%s: %s\r\n", f[0], f[1])
	}
	if _, err := io.WriteString(c, request.String()+"\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	head, _, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	return strings.Replace(string(head), "Connection: close\r\n", "", 1) + "\r\n\r\n", nil
}
