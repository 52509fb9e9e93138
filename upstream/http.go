package upstream

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"vitrine/upstream/shape"
)

const (
	maxRedirects = 5
	// maxValidator is the longest ETag or Last-Modified worth keeping.
	maxValidator = 1 << 10
	// maxDrain is read of a body nobody wants, to keep its connection.
	maxDrain = 4 << 10
)

// httpSource is a CMS behind a base URL.
type httpSource struct {
	options   Options
	base      *url.URL
	recipes   map[shape.Resource]*recipe
	transport *http.Transport
	client    *http.Client
}

func newHTTP(o Options) (source, string, error) {
	base, err := parseBase(o.URL)
	if err != nil {
		return nil, "", err
	}
	recipes, err := newRecipes(o)
	if err != nil {
		return nil, "", err
	}
	s := &httpSource{
		options: o,
		base:    base,
		recipes: recipes,
		transport: &http.Transport{
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
		},
	}
	s.client = &http.Client{Transport: guarded{s.transport}, CheckRedirect: checkRedirect}
	return s, fingerprint(o, append([]string{strings.TrimRight(base.String(), "/")}, describeAll(recipes)...)...), nil
}

// fetch makes one document of what its recipe asks for.
func (s *httpSource) fetch(ctx context.Context, r shape.Resource, held Validators) (answer, error) {
	return s.recipes[r].fetch(ctx, s, held)
}

// exchange asks for one answer, again where the table in retry.go says so.
func (s *httpSource) exchange(ctx context.Context, want request, held Validators) (answer, error) {
	r, target := want.resource, s.target(want)
	got := answer{op: "GET " + withoutQuery(target)}
	if want.page > 1 {
		got.op += " (page " + strconv.Itoa(want.page) + ")"
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return got, &FetchError{Resource: r, Op: got.op, Kind: ErrUnreachable, Err: bare(err)}
	}
	asked := s.describe(req.Header, want.headers, held)
	describeTrace(ctx, req.Header)
	req.SetResponseHandler(func(resp *http.Response) error { return s.accept(resp, asked, want.limit, &got) })

	tries := &attempts{resource: r, options: &s.options}
	// A client for each fetch: it is a few words that hold the policy's state,
	// while the connections are in the http.Client that all share.
	client := &retryablehttp.Client{
		HTTPClient:     s.client,
		RetryMax:       s.options.Retries,
		CheckRetry:     tries.check,
		Backoff:        tries.backoff,
		RequestLogHook: func(retryablehttp.Logger, *http.Request, int) { tries.made++ },
		// accept has closed the response, whatever it was.
		ErrorHandler: func(_ *http.Response, err error, _ int) (*http.Response, error) { return nil, err },
	}
	_, err = client.Do(req) //nolint:bodyclose // accept closes it
	got.attempts = tries.made
	if err == nil {
		if got.notModified {
			got.validators = got.validators.or(held)
		}
		return got, nil
	}
	verdict := judge(err)
	if ctx.Err() != nil && verdict.again {
		return got, &FetchError{Resource: r, Op: got.op, Kind: ErrTimeout, Err: &lateError{last: tries.last}}
	}
	return got, &FetchError{Resource: r, Op: got.op, Kind: verdict.kind, Err: bare(err)}
}

// describe sets the request's headers, and reports whether it asks for a 304.
func (s *httpSource) describe(h http.Header, own map[string]string, held Validators) (conditional bool) {
	h.Set("Accept", "application/json")
	h.Set("User-Agent", "vitrine")
	for _, headers := range []map[string]string{s.options.Headers, own} {
		for name, value := range headers {
			h.Set(name, value)
		}
	}
	h.Set("Accept-Encoding", "gzip")
	if s.options.Authorization != "" {
		h.Set("Authorization", s.options.Authorization)
	}
	held = held.usable()
	if held.ETag != "" {
		h.Set("If-None-Match", held.ETag)
	}
	if held.LastModified != "" {
		h.Set("If-Modified-Since", held.LastModified)
	}
	return held != Validators{}
}

// accept takes what an attempt brought into got, or says why it does not. It is
// a retryablehttp.ResponseHandlerFunc, so that a body cut short is an attempt
// that failed; and it closes resp in any case.
func (s *httpSource) accept(resp *http.Response, conditional bool, limit sizeLimit, got *answer) error {
	defer func() {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // only for the connection's sake
		_ = resp.Body.Close()
	}()
	return got.take(resp, limit, conditional, s.options.Authorization != "")
}

// take reads resp into got, if it brings a document, or the news that the one
// held is still good, to a request that was conditional. Credentials says
// whether the request had some.
func (got *answer) take(resp *http.Response, limit sizeLimit, conditional, credentials bool) error {
	got.status, got.header = resp.StatusCode, resp.Header
	got.validators = Validators{
		ETag:         resp.Header.Get("ETag"),
		LastModified: resp.Header.Get("Last-Modified"),
	}.usable()
	switch {
	case resp.StatusCode == http.StatusOK:
		body, err := readBody(resp, limit)
		got.body = body
		got.drafts = drafts(body)
		return err
	case resp.StatusCode == http.StatusNotModified && conditional:
		got.notModified = true
		return nil
	default:
		err := &StatusError{Code: resp.StatusCode, RetryAfter: parseRetryAfter(resp.Header, time.Now())}
		err.told(resp, credentials)
		return err
	}
}

// usable drops what cannot be sent back as a header.
func (v Validators) usable() Validators {
	if len(v.ETag) > maxValidator || !isHeaderValue(v.ETag) {
		v.ETag = ""
	}
	if len(v.LastModified) > maxValidator || !isHeaderValue(v.LastModified) {
		v.LastModified = ""
	}
	return v
}

// or fills what v lacks from held: a 304 need not repeat everything.
func (v Validators) or(held Validators) Validators {
	if v.ETag == "" {
		v.ETag = held.ETag
	}
	if v.LastModified == "" {
		v.LastModified = held.LastModified
	}
	return v
}

// checkRedirect lets a redirect go on to the same scheme, host and port, as an
// APPEND_SLASH does, and from http to https on the default ports of the same
// host name: the certificate then proves the host that the credentials are for.
// Everything else is refused, so no header, be it Authorization or one of
// Options.Headers, ever reaches another host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	code := req.Response.StatusCode
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return &RedirectError{Code: code, Reason: fmt.Sprintf("more than %d redirects", maxRedirects)}
	case req.URL.User != nil:
		return &RedirectError{Code: code, Reason: "redirected to a URL with a user in it"}
	case !sameOrigin(from, req.URL) && !isUpgrade(from, req.URL):
		return &RedirectError{Code: code, Reason: "redirected to another host, " +
			clip((&url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host}).String())}
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func isUpgrade(from, to *url.URL) bool {
	return from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443" &&
		strings.EqualFold(from.Hostname(), to.Hostname())
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// guarded keeps two habits of the libraries above off the transport.
// retryablehttp closes the idle connections of everyone when one request fails:
// guarded has no CloseIdleConnections. And net/http quotes a Location that it
// cannot parse in its error: without a Location the answer is just its status.
type guarded struct{ transport *http.Transport }

func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if location := resp.Header.Get("Location"); location != "" {
		if _, err := req.URL.Parse(location); err != nil {
			resp.Header.Del("Location")
		}
	}
	return resp, nil
}

func (s *httpSource) String() string { return withoutQuery(s.base) }

func (s *httpSource) close() { s.transport.CloseIdleConnections() }

// withoutQuery is u for people: a query may hold a key.
func withoutQuery(u *url.URL) string {
	v := *u
	v.RawQuery, v.ForceQuery = "", false
	return v.String()
}
