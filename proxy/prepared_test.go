package proxy

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"vitrine/cache"
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
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	default:
		t.Fatalf("coding %q", coding)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
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

func TestSmallBodiesHaveNoVariants(t *testing.T) {
	r := newRig(t, Options{})
	for _, size := range []int{minCompressed - 1, minCompressed} {
		r.sources[shape.Rules].hold(t, []byte(`["`+strings.Repeat("x", size-4)+`"]`))
		got := r.get(t, "/cms/rules/", "Accept-Encoding: br, gzip, zstd", "X: identity;q=0")
		vary, coding := "Accept, Accept-Encoding", "br"
		if size < minCompressed {
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

// documentOf is a document of n banners.
func documentOf(t testing.TB, n int) *cache.Document {
	t.Helper()
	banners := make([]shape.Banner, n)
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range banners {
		banners[i] = shape.Banner{ID: int64(i), TitleEN: fmt.Sprint(random.Uint64()), CreatedAt: "2023-06-01T00:00:00.000000Z", UpdatedAt: "2023-06-01T00:00:00.000000Z"}
	}
	body := shape.AppendBanners(nil, banners)
	return &cache.Document{Body: body, ETag: cache.ETag(body), FetchedAt: time.Now(), ChangedAt: time.Now(), FreshUntil: time.Now().Add(time.Minute)}
}

func TestOrderingsAreBoundedInNumberAndBytes(t *testing.T) {
	for _, n := range []int{3, 600} {
		d := documentOf(t, n)
		p, err := Prepare(shape.Banners)(d)
		if err != nil {
			t.Fatal(err)
		}
		limit := derivedBytes(len(d.Body))
		for i := range uint64(150) {
			random := rand.New(rand.NewPCG(2, i))
			terms := shape.BannerFields()
			random.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
			key := formKey{ordering: parseOrdering([]byte("title_en,-" + strings.Join(terms, ",-"))), indent: uint8(i % 9)}
			f := p.form(key)
			f.represent(gzipEncoding)
			if again := p.form(key); again != f {
				t.Fatal("a form just made is not held")
			}
			held := *p.derived.forms.Load()
			if bytes := size(held); len(held) > maxDerived || bytes > limit && len(held) > 1 {
				t.Fatalf("%d forms of %d bytes held for a document of %d", len(held), bytes, len(d.Body))
			}
		}
	}
}

func TestTheLeastRecentlyUsedOrderingGoesFirst(t *testing.T) {
	p, err := Prepare(shape.Banners)(documentOf(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	popular := formKey{ordering: parseOrdering([]byte("-id"))}
	f := p.form(popular)
	names := shape.BannerFields()
	for i := range 500 {
		key := formKey{ordering: parseOrdering([]byte(names[i%15] + "," + names[i/15%15] + "," + names[i/225%15])), indent: 1}
		p.form(key)
		if p.form(popular) != f {
			t.Fatalf("an ordering that is asked for all the time was made again after %d others", i+1)
		}
	}
}

func TestAnOrderingThatIsTheCMSsOrderIsTheDocumentItself(t *testing.T) {
	p, err := Prepare(shape.Banners)(documentOf(t, 20))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"id", "language_en,id", "created_at", "-updated_at"} {
		if f := p.form(formKey{ordering: parseOrdering([]byte(value))}); f != p.base {
			t.Errorf("%s is held for itself", value)
		}
	}
}

func TestAFormAndAVariantAreMadeOnceHoweverManyAsk(t *testing.T) {
	var built atomic.Int32
	var set *derivedSet
	set = newDerivedSet(1<<20, func(k formKey) *form {
		built.Add(1)
		f := newForm(bytes.Repeat([]byte("vitrine "), 4000), `"x"`, strong)
		f.grew = func() { set.trim(k) }
		return f
	})
	var wg sync.WaitGroup
	var first atomic.Pointer[representation]
	start := make(chan struct{})
	for range 64 {
		wg.Go(func() {
			<-start
			r := set.get(formKey{indent: 1}).represent(brotliEncoding)
			if !first.CompareAndSwap(nil, r) && first.Load() != r {
				t.Error("two visitors got two representations")
			}
		})
	}
	close(start)
	wg.Wait()
	if n := built.Load(); n != 1 {
		t.Errorf("made %d times", n)
	}
}

func TestADocumentThatWasOnlyConfirmedIsNotPreparedAgain(t *testing.T) {
	prepare := Prepare(shape.Banners)
	d := documentOf(t, 30)
	p, err := prepare(d)
	if err != nil {
		t.Fatal(err)
	}
	confirmed := *d
	confirmed.FetchedAt = confirmed.FetchedAt.Add(time.Minute)
	if again, err := prepare(&confirmed); err != nil || again != p {
		t.Errorf("prepared again: %v", err)
	}
	if other, err := prepare(documentOf(t, 31)); err != nil || other == p {
		t.Errorf("another document is taken for it: %v", err)
	}
	if _, err := prepare(&cache.Document{Body: []byte(`[{"id":"x"}]`)}); err == nil {
		t.Error("banners that are none are prepared")
	}
}
