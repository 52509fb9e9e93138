package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// decode undoes a content coding.
func decode(t *testing.T, coding string, body []byte) []byte {
	t.Helper()
	var r io.Reader
	switch coding {
	case "":
		return body
	case "br":
		r = brotli.NewReader(bytes.NewReader(body))
	case "gzip":
		return gunzip(t, body)
	case "zstd":
		// The window that every browser has room for, RFC 9659.
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderMaxWindow(8<<20))
		testkit.Must(t, err)
		defer z.Close()
		r = z
	default:
		t.Fatalf("coding %q", coding)
	}
	out, err := io.ReadAll(r)
	testkit.Must(t, err)
	return out
}

func TestEachRepresentationHasItsOwnStrongTag(t *testing.T) {
	r := newRig(t, Options{})
	r.holdRecorded(t, shape.Banners, "edge-singlebanner")
	plain := r.get(t, "/gvapp/singlebanner")
	tags := map[string]string{}
	for _, target := range []string{"", "?ordering=-id", "?ordering=title_en", "?format=api", "?format=api&ordering=-id"} {
		identity := r.get(t, "/gvapp/singlebanner"+target)
		for _, accept := range []string{"", "br", "gzip", "zstd"} {
			got := r.get(t, "/gvapp/singlebanner"+target, "Accept-Encoding: "+accept)
			if got.Header.Get("Content-Encoding") != accept || got.Header.Get("Vary") != "Accept, Accept-Encoding" {
				t.Fatalf("%s %s: %v", target, accept, got.Header)
			}
			if !bytes.Equal(decode(t, accept, got.body), identity.body) {
				t.Errorf("%s %s: another document", target, accept)
			}
			if accept != "" && 5*len(got.body) > len(plain.body) {
				t.Errorf("%s %s: %d bytes of %d", target, accept, len(got.body), len(plain.body))
			}
			tag := got.Header.Get("ETag")
			if tag != cache.ETag(got.body) {
				t.Errorf("%s %s: tag %s is not of these bytes", target, accept, tag)
			}
			if other, ok := tags[tag]; ok {
				t.Errorf("%s %s has the tag of %s", target, accept, other)
			}
			tags[tag] = target + " " + accept
			if again := r.get(t, "/gvapp/singlebanner"+target, "Accept-Encoding: "+accept, "If-None-Match: "+tag); again.StatusCode != http.StatusNotModified ||
				again.Header.Get("ETag") != tag || again.Header.Get("Vary") != got.Header.Get("Vary") {
				t.Errorf("%s %s: %d %v for its own tag", target, accept, again.StatusCode, again.Header)
			}
			if again := r.get(t, "/gvapp/singlebanner"+target, "If-None-Match: "+tag); accept != "" && again.StatusCode != http.StatusOK {
				t.Errorf("%s: the tag of %s confirms another representation", target, accept)
			}
		}
	}
}

// ruleSetTitled is a document of one rule set.
func ruleSetTitled(t *testing.T, title string) []byte {
	t.Helper()
	d, err := shape.Normalize(shape.Rules, []byte(`[{"id":1,"title":"`+title+`"}]`))
	testkit.Must(t, err)
	return d.Body
}

func TestSmallBodiesHaveNoVariants(t *testing.T) {
	r := newRig(t, Options{})
	least := len(ruleSetTitled(t, ""))
	for _, size := range []int{1399, 1400} {
		r.sources[shape.Rules].hold(t, ruleSetTitled(t, strings.Repeat("x", size-least)))
		got := r.get(t, "/cms/rules/", "Accept-Encoding: br, gzip, zstd", "X: identity;q=0")
		vary, coding := "Accept, Accept-Encoding", "br"
		if size < 1400 {
			vary, coding = "Accept", ""
		}
		if got.Header.Get("Vary") != vary || got.Header.Get("Content-Encoding") != coding {
			t.Errorf("%d bytes: %v", size, got.Header)
		}
	}
}

func TestHeadHasTheFieldsOfGet(t *testing.T) {
	r := newRig(t, Options{})
	r.holdRecorded(t, shape.Banners, "singlebanner-get")
	for _, fields := range []string{"", "\nAccept-Encoding: br", "\nAccept: application/json; indent=2", "\nAccept: image/png", "\nIf-None-Match: *"} {
		get := r.send(t, "GET /gvapp/singlebanner?ordering=-id HTTP/1.1\nHost: x\nX-Request-Id: 1"+fields)
		head := r.send(t, "HEAD /gvapp/singlebanner?ordering=-id HTTP/1.1\nHost: x\nX-Request-Id: 1"+fields)
		get.Header.Del("Date")
		head.Header.Del("Date")
		if head.StatusCode != get.StatusCode || len(head.body) != 0 || head.ContentLength != get.ContentLength && get.StatusCode != http.StatusNotModified ||
			strings.ReplaceAll(fmt.Sprint(head.Header), "ttl=59", "ttl=60") != strings.ReplaceAll(fmt.Sprint(get.Header), "ttl=59", "ttl=60") {
			t.Errorf("%q: HEAD %d %d %v\nGET %d %d %v", fields, head.StatusCode, head.ContentLength, head.Header, get.StatusCode, get.ContentLength, get.Header)
		}
	}
}
