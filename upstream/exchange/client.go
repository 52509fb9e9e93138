// Package exchange makes one request to the CMS, and says what may be believed of its answer.
//
// One [Client.Do] goes like this:
//
//  1. the URL is the base URL with the path and query of the request; of a folder it is the name of
//     a file, which [folder] serves as a CMS would;
//  2. the request carries the validators of the copy held, and the trace that the fetch is part of;
//  3. a redirect is followed on the same host only;
//  4. an answer must be JSON in UTF-8, complete and within its limits, before and after
//     decompression, and no page or error that merely says it is JSON;
//  5. what went wrong is judged by the table in retry.go: asked again, reported, and of what kind.
//
// Proxies are taken from HTTP_PROXY, HTTPS_PROXY and NO_PROXY as net/http does; a proxy for plain
// http sees the Authorization header.
package exchange

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
)

// Client makes requests to one CMS, or reads the files of one folder.
type Client struct {
	options Options
	base    *url.URL
	name    string  // for people
	files   *folder // nil for a CMS
	http    *http.Client
}

// New makes a client of the CMS at base, which [ParseBase] has read.
func New(base *url.URL, o Options) *Client {
	if o.Transport == nil {
		o.Transport = Transport()
	}
	return &Client{
		options: o, base: base, name: withoutQuery(base),
		http: &http.Client{CheckRedirect: checkRedirect, Transport: bareLocation{o.Transport}},
	}
}

// NewFolder makes a client that reads saved answers. name is the folder's for people, prefix that
// of its files in errors; a file larger than most is refused.
func NewFolder(files fs.FS, name, prefix string, most int64, o Options) *Client {
	o.Retries, o.Headers, o.Authorization = 0, nil, "" // for what a CMS wants
	f := &folder{files: files, prefix: prefix, most: most}
	return &Client{options: o, name: name, files: f, http: &http.Client{Transport: bareLocation{f}, CheckRedirect: checkRedirect}}
}

// Transport is what New uses where nothing else is given.
func Transport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        8, // three resources, and a refresh or two that overlap
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		// No ResponseHeaderTimeout: the deadline of the fetch bounds that too.
		MaxResponseHeaderBytes: 64 << 10,
		// The body is decompressed in body.go, where both its sizes can be bounded.
		DisableCompression: true,
	}
}

// String names the CMS or the folder for people, with neither credentials nor query.
func (c *Client) String() string { return c.name }

// Close closes the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do makes the request, again where the table in retry.go says so. Its error is an *[Error].
func (c *Client) Do(ctx context.Context, want Request) (Answer, error) {
	ctx, span := StartSpan(ctx, "page", want.Resource)
	got, err := c.try(ctx, want)
	endPage(span, want, got, err)
	return got, err
}

func (c *Client) try(ctx context.Context, want Request) (Answer, error) {
	got := Answer{Op: c.op(want)}
	var last error // of the attempt before
	for {
		got.Attempts++
		err := c.attempt(ctx, want, &got)
		if err == nil {
			return got, nil
		}
		verdict := Judge(err)
		if ctx.Err() != nil && verdict.Again {
			return got, &Error{Op: got.Op, Kind: ErrTimeout, Err: &LateError{last: last}}
		}
		wait, again := c.options.again(ctx, err, got.Attempts)
		if !again {
			return got, &Error{Op: got.Op, Kind: verdict.Kind, Err: bare(err)}
		}
		last = bare(err)
		c.options.Logger.LogAttrs(ctx, slog.LevelInfo, "upstream attempt failed, trying again",
			slog.String("resource", want.Resource), slog.Int("attempt", got.Attempts),
			slog.Duration("wait", wait), slog.Any("error", last))
		if !Sleep(ctx, wait) {
			return got, &Error{Op: got.Op, Kind: ErrTimeout, Err: &LateError{last: last}}
		}
	}
}

// Sleep waits, and reports whether ctx outlived it.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt asks once.
func (c *Client) attempt(ctx context.Context, want Request, got *Answer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.target(want).String(), nil)
	if err != nil {
		return err
	}
	held := want.Held.usable()
	c.describe(ctx, req.Header, want.Headers, held)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer drain(resp)
	if c.files != nil {
		got.Op = c.files.op(resp.Request.URL)
	}
	return got.take(resp, want.Limit, held, c.options.Authorization != "")
}

// describe sets the headers of a request.
func (c *Client) describe(ctx context.Context, h http.Header, own map[string]string, held Validators) {
	h.Set("Accept", "application/json")
	h.Set("User-Agent", "vitrine")
	for _, headers := range []map[string]string{c.options.Headers, own} {
		for name, value := range headers {
			h.Set(name, value)
		}
	}
	h.Set("Accept-Encoding", "gzip")
	if c.options.Authorization != "" {
		h.Set("Authorization", c.options.Authorization)
	}
	if held.ETag != "" {
		h.Set("If-None-Match", held.ETag)
	}
	if held.LastModified != "" {
		h.Set("If-Modified-Since", held.LastModified)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// op is how errors call the request.
func (c *Client) op(want Request) string {
	if c.files != nil {
		return c.files.op(c.target(want))
	}
	op := "GET " + withoutQuery(c.target(want))
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
	switch {
	case want.Query == "":
	case u.RawQuery == "":
		u.RawQuery = want.Query
	default:
		u.RawQuery += "&" + want.Query
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

// withoutQuery is u for people: a query may hold a key.
func withoutQuery(u *url.URL) string {
	v := *u
	v.RawQuery, v.ForceQuery = "", false
	return strings.TrimSuffix(v.String(), "#")
}

// Follow returns the query of a link in an answer to want, which is all that pages of one list
// differ by. Django REST Framework makes links from the Host header and the scheme that reach it,
// WordPress from its settings; behind a proxy both may have another scheme, port or prefix than the
// base URL, and still mean it. So the link is never asked at its own address, and a link to a host
// of another name, or to another list, is refused. In a folder every link leads to the next file.
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
			" (if the CMS calls itself so, name it in paging.hosts)")
	case !sameList(own.Path, link.Path):
		return "", errors.New("a link to another path, " + clip(link.Path))
	}
	return link.RawQuery, nil
}
