// Package exchange makes one request to the CMS and checks the response.
//
// One [Client.Do] goes like this:
//
//  1. the URL is the base URL with the path and query of the request; for a folder it is the name
//     of a file, which the type folder serves as a CMS would;
//  2. the request carries the validators of the cached copy and the trace context;
//  3. a redirect is followed on the same host only;
//  4. a response must be JSON in UTF-8, complete and within its limits, before and after
//     decompression, and not a page or an error labelled as JSON;
//  5. a failure is judged by the table in retry.go, which says its kind and whether the request is
//     repeated.
//
// Proxies are taken from HTTP_PROXY, HTTPS_PROXY and NO_PROXY as net/http does; a proxy for plain
// http sees the Authorization header.
package exchange

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"vitrine/upstream/outbound"
	"vitrine/upstream/sanitize"
)

// Client makes requests to one CMS, or reads the files of one folder.
type Client struct {
	options Options
	base    *url.URL
	name    string  // for people
	files   *folder // nil for a CMS
	http    *http.Client
}

// maxConnectionAge is how long a connection to the CMS is used.
const maxConnectionAge = time.Minute

// New makes a client of the CMS at base, a result of [ParseBase].
func New(base *url.URL, o Options) *Client {
	if o.Transport == nil {
		o.Transport = outbound.New(8) // three resources, and a refresh or two that overlap
	}
	if t, ok := o.Transport.(*http.Transport); ok {
		o.Transport = outbound.Ageing(t, maxConnectionAge)
	}
	return &Client{
		options: o, base: base, name: withoutQuery(base),
		http: &http.Client{CheckRedirect: checkRedirect, Transport: outbound.Wrap(o.Transport)},
	}
}

// NewFolder makes a client that reads saved responses. name is the folder's name in messages,
// prefix that of its files in errors; a file larger than most is refused.
func NewFolder(files fs.FS, name, prefix string, most int64, o Options) *Client {
	o.Retries, o.Headers, o.Authorization = 0, nil, "" // for a CMS only
	f := &folder{files: files, prefix: prefix, most: most}
	return &Client{options: o, name: name, files: f, http: &http.Client{Transport: outbound.Wrap(f), CheckRedirect: checkRedirect}}
}

// String names the CMS or the folder, without credentials or query.
func (c *Client) String() string { return c.name }

// Close closes idle connections.
func (c *Client) Close() {
	if t, ok := c.options.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// describe sets the headers of a request.
func (c *Client) describe(ctx context.Context, h http.Header, want Request, held Validators) {
	h.Set("Accept", "application/json")
	h.Set("User-Agent", "vitrine")
	if want.Type != "" {
		h.Set("Content-Type", want.Type)
	}
	for name, value := range c.options.Headers {
		h.Set(name, value)
	}
	for name, value := range want.Headers {
		h.Set(name, value)
	}
	h.Set("Accept-Encoding", "gzip")
	if c.options.Authorization != "" {
		h.Set("Authorization", c.options.Authorization)
	}
	if want.NoCache {
		h.Set("Cache-Control", "no-cache")
	}
	if held.ETag != "" {
		h.Set("If-None-Match", held.ETag)
	}
	if held.LastModified != "" {
		h.Set("If-Modified-Since", held.LastModified)
	}
	if trace := TraceOf(ctx); trace.Parent != "" {
		h.Set("Traceparent", trace.Parent)
		if trace.State != "" {
			h.Set("Tracestate", trace.State)
		}
	}
}

// op names the request in errors.
func (c *Client) op(want Request) string {
	if c.files != nil {
		return c.files.op(c.target(want))
	}
	op := want.method() + " " + withoutQuery(c.target(want))
	if want.Page > 1 {
		op += " (page " + strconv.Itoa(want.Page) + ")"
	}
	return op
}

// target is the URL of a request.
func (c *Client) target(want Request) *url.URL {
	if c.files != nil {
		return &url.URL{Scheme: "file", Path: "/" + fileName(want)}
	}
	u := resolve(c.base, want.Path)
	for _, query := range []string{want.Query, c.options.Query.Encode()} {
		if u.RawQuery != "" && query != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += query
	}
	return u
}

// resolve joins a checked path, with its query, to base.
func resolve(base *url.URL, p string) *url.URL {
	rel, err := url.Parse(p)
	if err != nil {
		panic("exchange: path was not checked: " + p)
	}
	u := base.JoinPath(rel.EscapedPath())
	u.RawQuery = rel.RawQuery
	return u
}

// withoutQuery returns u for messages, without its query, which may contain a key.
func withoutQuery(u *url.URL) string {
	v := *u
	v.RawQuery, v.ForceQuery = "", false
	return strings.TrimSuffix(v.String(), "#")
}

// Follow returns the query of a link in a response to want; the pages of one list differ in nothing
// else. Django REST Framework makes links from the Host header and scheme it receives, WordPress
// from its settings; behind a proxy both can have another scheme, port or prefix than the base URL.
// So a link's own address is never requested, and a link to another host name or another list is
// refused. In a folder every link leads to the next file.
func (c *Client) Follow(want Request, raw string, hosts []string) (query string, err error) {
	if c.files != nil {
		return "page=" + strconv.Itoa(want.Page+1), nil
	}
	own := c.target(want)
	ref, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("something that is not a URL")
	}
	link := own.ResolveReference(ref)
	known := func(host string) bool { return strings.EqualFold(host, link.Hostname()) }
	switch {
	case link.Scheme != "http" && link.Scheme != "https":
		return "", errors.New("a link of another scheme")
	case link.User != nil:
		return "", errors.New("a link with a user in it")
	case !known(own.Hostname()) && !slices.ContainsFunc(hosts, known):
		return "", errors.New("a link to another host, " + clip(link.Host) +
			" (if that is a name of the CMS, add it to paging.hosts)")
	case !sameList(own.Path, link.Path):
		return "", errors.New("a link to another path, " + clip(link.Path))
	}
	return c.without(link.RawQuery), nil
}

// without removes from the query of a link what is sent with each request anyway: a CMS may repeat
// it, and the next request would have it twice, the one after that three times.
func (c *Client) without(query string) string {
	kept := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		return err == nil && c.options.Query.Has(name)
	})
	return strings.Join(kept, "&")
}

// Mask masks in a message of the CMS what it repeats of the secrets that it was sent, and shortens the
// message.
func (c *Client) Mask(text string) string {
	return sanitize.Clip(sanitize.Mask(text, append([]string{c.options.Authorization}, c.options.Secrets...)...), 1000)
}
