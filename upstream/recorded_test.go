package upstream

import (
	"bytes"
	"net/http"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestRecordedDocumentsAreFetchedWhole(t *testing.T) {
	for _, c := range []struct {
		resource shape.Resource
		name     string
		plain    string // the same document uncompressed
	}{
		{shape.Catalogue, "gvapp-get", "gvapp-get"},
		{shape.Rules, "rules-get", "rules-get"},
		{shape.Banners, "singlebanner-get", "singlebanner-get"},
		{shape.Catalogue, "gzip-get", "gzip-identity"},
		{shape.Catalogue, "gzip-identity", "gzip-identity"},
		{shape.Catalogue, "cond-get", "cond-get"},
		{shape.Rules, "host-urls-rules", "host-urls-rules"},
		{shape.Catalogue, "edge-gvapp", "edge-gvapp"},
		{shape.Rules, "edge-rules", "edge-rules"},
		{shape.Banners, "edge-singlebanner", "edge-singlebanner"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			cms.Record(c.resource, upstreamtest.Recording(t, c.name))
			got := mustFetch(t, newClient(t, cms.URL, nil), c.resource)
			if !bytes.Equal(got.Document.Body, normalized(t, c.resource, c.plain)) {
				t.Error("not the recorded document")
			}
			if got.Status != http.StatusOK || got.Attempts != 1 || got.Duration <= 0 || got.NotModified {
				t.Errorf("status %d, %d attempts, %v, not modified %t", got.Status, got.Attempts, got.Duration, got.NotModified)
			}
		})
	}
}

func TestRecordedValidatorsRenewTheCopyHeld(t *testing.T) {
	const etag, modified = `"cc0a9dca98c3df4971ca0de09d447abb"`, "Tue, 12 Dec 2023 23:15:49 GMT"
	for _, c := range []struct {
		name string
		held Validators
	}{
		{"cond-304-etag", Validators{ETag: etag}},
		{"cond-304-weak", Validators{ETag: "W/" + etag}},
		{"cond-304-since", Validators{LastModified: modified}},
		{"cond-304-star", Validators{ETag: etag, LastModified: modified}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			cms.Record(shape.Catalogue, upstreamtest.Recording(t, c.name))
			got, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Catalogue, c.held)
			testkit.Must(t, err)
			if !got.NotModified || got.Status != http.StatusNotModified || got.Document.Body != nil {
				t.Errorf("got %+v", got)
			}
			if got.Validators != (Validators{ETag: etag, LastModified: modified}) {
				t.Errorf("validators %+v", got.Validators)
			}
			sent := cms.Last().Header
			if sent.Get("If-None-Match") != c.held.ETag || sent.Get("If-Modified-Since") != c.held.LastModified {
				t.Errorf("sent %v", sent)
			}
		})
	}
}

func TestAppendSlashIsFollowed(t *testing.T) {
	for _, c := range []struct {
		resource shape.Resource
		path     string // as an operator may have written it
		name     string
	}{
		{shape.Catalogue, "gvapp", "gvapp-no-slash-301"},
		{shape.Rules, "cms/rules", "rules-no-slash-301"},
	} {
		cms := upstreamtest.New(t)
		cms.HandlePath("/"+c.path, upstreamtest.Recorded(t, upstreamtest.Recording(t, c.name)))
		client := newClient(t, cms.URL, func(o *options) {
			o.Resources = map[shape.Resource]source.Resource{c.resource: {Path: c.path}}
			o.Authorization = "Token abc"
		})
		if got := mustFetch(t, client, c.resource); len(got.Document.Body) == 0 {
			t.Errorf("%s: no document", c.path)
		}
		if last := cms.Last(); last.Path != c.resource.Route() || last.Header.Get("Authorization") != "Token abc" {
			t.Errorf("%s: went on to %s with %v", c.path, last.Path, last.Header)
		}
	}
}
