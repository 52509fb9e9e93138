package upstream

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/shape"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	const userinfo = "upstream URL: a user or password is not allowed; use the upstream authorization setting (VITRINE_UPSTREAM_AUTHORIZATION)"
	const form = "upstream URL: the scheme is missing or unknown"
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "upstream URL: missing; want sample:, file:DIR, http://… or https://…"},
		{Options{URL: "http://user:hush@cms"}, userinfo},
		{Options{URL: "https://hush@cms/base"}, userinfo},
		{Options{URL: "http://user:hu/sh@cms"}, "upstream URL: not a URL"},
		{Options{URL: "http://cms:hush"}, "upstream URL: not a URL"},
		{Options{URL: "http://cms/?key=hush"}, "upstream URL: a query is not allowed; it belongs to the path of a resource"},
		{Options{URL: "http://cms/?"}, "upstream URL: a query is not allowed; it belongs to the path of a resource"},
		{Options{URL: "http://cms/#hush"}, "upstream URL: a fragment is not allowed"},
		{Options{URL: "http://cms/#"}, "upstream URL: a fragment is not allowed"},
		{Options{URL: "http://"}, "upstream URL: no host after http://"},
		{Options{URL: "http:cms"}, "upstream URL: no host after http://"},
		{Options{URL: "https://:8000"}, "upstream URL: no host after https://"},
		{Options{URL: "http://cms:70000"}, "upstream URL: want a port from 1 to 65535, got 70000"},
		{Options{URL: "http://cms:0"}, "upstream URL: want a port from 1 to 65535, got 0"},
		{Options{URL: "cms.example"}, form},
		{Options{URL: "ftp://cms"}, form},
		{Options{URL: "sample:other"}, form},
		{Options{URL: "file:"}, "upstream URL: want file:DIR, got no folder"},
		{Options{URL: "file://elsewhere/dir"}, "upstream URL: want file:DIR or file:///DIR"},
		{Options{URL: "file:" + file + ".gone"}, "upstream URL: no folder " + file + ".gone"},
		{Options{URL: "file:" + file}, "upstream URL: " + file + " is not a folder"},
		{Options{URL: "http://cms", Shared: source.Shared{Headers: map[string]string{"a b": "c"}}}, `upstream.shared.headers.a b: want the name of a header, got "a b"`},
		{Options{URL: "http://cms", Shared: source.Shared{Headers: map[string]string{"": "c"}}}, `upstream.shared.headers.: want the name of a header, got ""`},
		{Options{URL: "http://cms", Shared: source.Shared{Headers: map[string]string{"authorization": "hush"}}}, `upstream.shared.headers.authorization: want upstream.authorization for this`},
		{Options{URL: "http://cms", Shared: source.Shared{Headers: map[string]string{"X-Key": "hush\r\n"}}}, `upstream.shared.headers.X-Key: want a value without control characters`},
		{Options{URL: "http://cms", Resources: map[shape.Resource]source.Resource{"posters": {Path: "x"}}}, "upstream.resources.posters: there is no such resource"},
		{Options{URL: "http://cms", Resources: map[shape.Resource]source.Resource{"banners": {Path: "http://other/x"}}}, "upstream.resources.banners.parts[0].path: want a path relative to the upstream URL, got a URL"},
		{Options{URL: "http://cms", Resources: map[shape.Resource]source.Resource{"banners": {Path: "//other/x"}}}, "upstream.resources.banners.parts[0].path: want a path relative to the upstream URL, got a URL"},
		{Options{URL: "http://cms", Resources: map[shape.Resource]source.Resource{"banners": {Path: "x#y"}}}, "upstream.resources.banners.parts[0].path: a fragment is not allowed"},
		{Options{URL: "http://cms", Resources: map[shape.Resource]source.Resource{"banners": {Path: "%zz"}}}, "upstream.resources.banners.parts[0].path: not a path"},
		{Options{URL: "http://cms", Resources: map[shape.Resource]source.Resource{"banners": {Path: "a/../../x"}}}, "upstream.resources.banners.parts[0].path: a path with .. would leave the upstream URL"},
	} {
		client, err := New(options{Options: c.o}.complete(t))
		if err == nil {
			t.Errorf("%+v: accepted as %v", c.o, client)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%s\ngot  %v\nwant %s", c.o.URL, err, c.want)
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}

func TestUnknownResourceIsAnError(t *testing.T) {
	client := newClient(t, "sample:", nil)
	const want = `no resource "posters"`
	if _, err := client.Fetch(t.Context(), "posters", Held{}); err == nil || err.Error() != "fetch: "+want {
		t.Error(err)
	}
	if _, err := client.Explain(t.Context(), "posters"); err == nil || err.Error() != "explain: "+want {
		t.Error(err)
	}
}

func TestSourceTellsOneMakingFromAnother(t *testing.T) {
	dir := t.TempDir()
	base := newClient(t, "http://cms", nil).Fingerprint()
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(base) {
		t.Errorf("source %q", base)
	}
	same := map[string]*Client{
		"again":              newClient(t, "http://cms", nil),
		"a trailing slash":   newClient(t, "http://cms/", nil),
		"the default path":   newClient(t, "http://cms", func(o *options) { o.Resources = map[shape.Resource]source.Resource{"rules": {Path: "/cms/rules/"}} }),
		"another token":      newClient(t, "http://cms", func(o *options) { o.Authorization = "Bearer abc" }),
		"another patience":   newClient(t, "http://cms", func(o *options) { o.Timeout, o.Retries = time.Second, 9 }),
		"another size":       newClient(t, "http://cms", func(o *options) { o.MaxBytes = 1 }),
		"host in upper case": newClient(t, "http://CMS", nil),
	}
	for name, c := range same {
		if c.Fingerprint() != base {
			t.Errorf("%s: another source", name)
		}
	}
	others := map[string]*Client{
		"https":        newClient(t, "https://cms", nil),
		"another host": newClient(t, "http://cms2", nil),
		"another port": newClient(t, "http://cms:8000", nil),
		"a base path":  newClient(t, "http://cms/api", nil),
		"another path": newClient(t, "http://cms", func(o *options) { o.Resources = map[shape.Resource]source.Resource{"rules": {Path: "rules"}} }),
		"another query": newClient(t, "http://cms", func(o *options) {
			o.Resources = map[shape.Resource]source.Resource{"rules": {Path: "cms/rules/?all=1"}}
		}),
		"without slash":  newClient(t, "http://cms", func(o *options) { o.Resources = map[shape.Resource]source.Resource{"rules": {Path: "cms/rules"}} }),
		"a header":       newClient(t, "http://cms", func(o *options) { o.Shared.Headers = map[string]string{"X-Site": "a"} }),
		"another value":  newClient(t, "http://cms", func(o *options) { o.Shared.Headers = map[string]string{"X-Site": "b"} }),
		"a parameter":    newClient(t, "http://cms", func(o *options) { o.Shared.Query = url.Values{"lang": {"nl"}} }),
		"another one":    newClient(t, "http://cms", func(o *options) { o.Shared.Query = url.Values{"lang": {"fr"}} }),
		"another preset": newClient(t, "http://cms", func(o *options) { o.Preset = "strapi5" }),
		"the sample":     newClient(t, "sample:", nil),
		"a folder":       newClient(t, "file:"+dir, nil),
		"another folder": newClient(t, "file:"+filepath.Dir(dir), nil),
	}
	first := 0
	for name, p := range map[string]source.Part{
		"a part's query":    {Query: url.Values{"a": {"b"}}},
		"a part's header":   {Headers: map[string]string{"X-A": "b"}},
		"its value":         {Headers: map[string]string{"X-A": "c"}},
		"a style":           {Paging: source.Paging{Style: source.PagingPage, Param: "p"}},
		"another parameter": {Paging: source.Paging{Style: source.PagingPage, Param: "q"}},
		"another beginning": {Paging: source.Paging{Style: source.PagingPage, Param: "p", First: &first}},
		"items":             {Items: ".rows"},
		"a program":         {Map: "."},
	} {
		others[name] = newClient(t, "http://cms", func(o *options) {
			o.Resources = map[shape.Resource]source.Resource{"rules": {Parts: []source.Part{p}}}
		})
	}
	others["a program of all"] = newClient(t, "http://cms", func(o *options) { o.Resources = map[shape.Resource]source.Resource{"rules": {Map: "."}} })
	seen := map[string]string{base: "the first"}
	for name, c := range others {
		if before, ok := seen[c.Fingerprint()]; ok {
			t.Errorf("%s has the source of %s", name, before)
		}
		seen[c.Fingerprint()] = name
	}
	secret := func(value string) string {
		return newClient(t, "http://cms", func(o *options) {
			o.Shared = source.Shared{Headers: map[string]string{"X-Key": value}, Query: url.Values{"lang": {"nl"}, "k": {value}}, Secrets: []string{value}}
			o.Resources = map[shape.Resource]source.Resource{shape.Rules: {Parts: []source.Part{{Path: "x?k=" + value, Headers: map[string]string{"X-A": "Token " + value}}}}}
		}).Fingerprint()
	}
	if secret(`a"<1`) != secret("hunter2") {
		t.Error("a secret is in the source")
	}
}
