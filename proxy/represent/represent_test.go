package represent

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vitrine/cache"
	"vitrine/cmd/testkit"
	"vitrine/proxy/negotiate"
	"vitrine/proxy/processors"
	"vitrine/upstream/shape"
)

// documentOf is a document of n banners.
func documentOf(t testing.TB, n int) *cache.Document {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(n)))
	in := []byte{'['}
	for i := range n {
		in = fmt.Appendf(in, `{"id":%d,"title_en":"%d","created_at":"2023-06-01T00:00:00Z","updated_at":"2023-06-01T00:00:00Z"},`, i, random.Uint64())
	}
	d, err := shape.Normalize(shape.Banners, append(bytes.TrimSuffix(in, comma), ']'))
	testkit.Must(t, err)
	body := d.Body
	return &cache.Document{Body: body, ETag: cache.ETag(body), FetchedAt: time.Now(), ChangedAt: time.Now(), FreshUntil: time.Now().Add(time.Minute)}
}

// ordered is the key of an ordering.
func ordered(value string) Key { return Key{Ordering: negotiate.ParseOrdering([]byte(value))} }

// content is what is written of a representation.
func content(r *Representation) []byte {
	if r.Body != nil {
		return r.Body
	}
	all, _ := io.ReadAll(r.Stream()) // which is the memory's
	return all
}

func prepared(t testing.TB, banners int) *Document {
	t.Helper()
	p, err := Prepare(shape.Banners, processors.New())(documentOf(t, banners))
	testkit.Must(t, err)
	return p
}

// sizes are the number of variants that are held, and the bytes that they are counted with.
func (s *derived) sizes() (n int, bytes int64) {
	for _, h := range *s.all.Load() {
		bytes += h.size
	}
	return len(*s.all.Load()), bytes
}

func TestOrderingsAreBoundedInNumberAndBytes(t *testing.T) {
	for n, orderings := range map[int]uint64{3: 150, 600: 30} {
		p := prepared(t, n)
		for i := range orderings {
			random := rand.New(rand.NewPCG(2, i))
			terms := shape.BannerFields()
			random.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
			key := ordered("title_en,-" + strings.Join(terms, ",-"))
			key.Indent = uint8(i % 9)
			r := p.Get(key, negotiate.Gzip)
			if again := p.Get(key, negotiate.Gzip); again != r {
				t.Fatal("a form just made is not held")
			}
			if held, bytes := p.derived.sizes(); held > maxDerived || bytes > p.derived.limit && held > 1 {
				t.Fatalf("%d variants of %d bytes held for a document of %d", held, bytes, p.identity.Size)
			}
		}
	}
}

func TestTheLeastRecentlyUsedOrderingGoesFirst(t *testing.T) {
	p := prepared(t, 3)
	popular := ordered("-id")
	r := p.Get(popular, negotiate.Identity)
	names := shape.BannerFields()
	for i := range 500 {
		key := ordered(names[i%15] + "," + names[i/15%15] + "," + names[i/225%15])
		key.Indent = 1
		p.Get(key, negotiate.Identity)
		if p.Get(popular, negotiate.Identity) != r {
			t.Fatalf("an ordering that is asked for all the time was made again after %d others", i+1)
		}
	}
}

func TestAnOrderingThatIsTheCMSsOrderIsTheDocumentItself(t *testing.T) {
	p := prepared(t, 20)
	for _, value := range []string{"id", "language_en,id", "created_at", "-updated_at"} {
		for _, e := range []negotiate.Encoding{negotiate.Identity, negotiate.Brotli} {
			if r := p.Get(ordered(value), e); r != p.Get(Key{}, e) {
				t.Errorf("%s is held for itself", value)
			}
		}
	}
	if _, n := p.derived.sizes(); n != 0 {
		t.Errorf("%d bytes are counted twice", n)
	}
}

func TestAFormAndAVariantAreMadeOnceHoweverManyAsk(t *testing.T) {
	p := prepared(t, 100)
	var wg sync.WaitGroup
	var first atomic.Pointer[Representation]
	start := make(chan struct{})
	for range 64 {
		wg.Go(func() {
			<-start
			r := p.Get(Key{Indent: 1}, negotiate.Brotli)
			if !first.CompareAndSwap(nil, r) && first.Load() != r {
				t.Error("two visitors got two representations")
			}
		})
	}
	close(start)
	wg.Wait()
	if r := first.Load(); r.Encoding != negotiate.Brotli {
		t.Errorf("encoded as %q", r.Encoding)
	}
}

// A panic of a builder, which the server makes an error of, reaches all who wait for the variant; and
// the builder goes on.
func TestAPanickingBuilderHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := prepared(t, 20)
		release := make(chan struct{})
		p.codings[negotiate.Gzip] = func() *Representation { <-release; panic("no gzip") }
		caught := make(chan any, 3)
		for range cap(caught) {
			go func() {
				defer func() { caught <- recover() }()
				p.Get(ordered("id"), negotiate.Gzip)
			}()
		}
		synctest.Wait()
		close(release)
		for range cap(caught) {
			if err := fmt.Sprint(testkit.Receive(t, caught)); !strings.Contains(err, "no gzip") {
				t.Errorf("a visitor gets %s", err)
			}
		}
		occupy(t, p.builders)
	})
}

// occupy keeps all builders busy until the test calls what it returns.
func occupy(t *testing.T, builders processors.Half) (leave func()) {
	t.Helper()
	n := 1
	for builders.Take(); builders.TryTake(); {
		n++
	}
	leave = sync.OnceFunc(func() {
		for range n {
			builders.Give()
		}
	})
	t.Cleanup(leave)
	return leave
}

// isPlain fails unless r is the banners in an ordering, without indentation and content coding.
func isPlain(t *testing.T, p *Document, r *Representation, ordering string) {
	t.Helper()
	order := p.banners.order(ordered(ordering).Ordering)
	want := p.identity.Body
	if order != nil {
		want = items{p.banners, order}.appendTo(nil)
	}
	if got := content(r); !bytes.Equal(got, want) || r.Size != len(want) || string(r.Tag) != cache.ETag(want) || r.Encoding != negotiate.Identity || !r.Varies {
		t.Errorf("ordered by %q: %d bytes of %q in %q, want %d of %s", ordering, len(got), r.Tag, r.Encoding, len(want), cache.ETag(want))
	}
}

func TestWhileBuildersAreBusyAnAnswerIsPlainAndRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := prepared(t, 200)
		p.Get(ordered("-created_at,title_en"), negotiate.Identity)
		leave := occupy(t, p.builders)
		// What needs no order is answered at once.
		isPlain(t, p, p.Get(Key{Indent: 4}, negotiate.Brotli), "")
		isPlain(t, p, p.Get(ordered("-created_at,title_en"), negotiate.Brotli), "-created_at,title_en")
		// What does waits for its turn, and holds no copy of the document.
		key := ordered("title_en")
		key.Indent = 2
		answered := make(chan *Representation, 1)
		go func() { answered <- p.Get(key, negotiate.Zstd) }()
		synctest.Wait()
		select {
		case <-answered:
			t.Fatal("ordered without a builder")
		default:
		}
		before, _ := p.derived.sizes()
		leave()
		isPlain(t, p, testkit.Receive(t, answered), "title_en")
		if n, _ := p.derived.sizes(); n != before {
			t.Errorf("%d variants are held, %d before", n, before)
		}
		if r := p.Get(key, negotiate.Zstd); r.Encoding != negotiate.Zstd {
			t.Errorf("with a builder: encoded as %q", r.Encoding)
		}
	})
}

func TestWhatIsBeingWrittenIsNotDroppedAndNothingIsBuiltBeyondTheRoomLeft(t *testing.T) {
	p := prepared(t, 3000)
	names := shape.BannerFields()
	var streams []io.ReadCloser
	reps := map[string]*Representation{}
	for i, name := range names[:7] {
		ordering := "-" + name + ",title_en,title_nl"
		r := p.Get(ordered(ordering), negotiate.Identity)
		streams, reps[ordering] = append(streams, r.Stream()), r
		if _, bytes := p.derived.sizes(); bytes > p.derived.limit {
			t.Fatalf("%d bytes are held, want at most %d", bytes, p.derived.limit)
		}
		if full := r.Body != nil; full != (i < 2) { // there is room for two
			t.Errorf("ordering %d: built is %t", i, full)
		}
		isPlain(t, p, r, ordering)
	}
	for ordering, r := range reps {
		if held := p.derived.find(want{ordered(ordering), negotiate.Identity}) != nil; held != (r.Body != nil) {
			t.Errorf("%s: held is %t while it is being written", ordering, held)
		}
	}
	for _, s := range streams {
		testkit.Check(t, s.Close())
	}
	if r := p.Get(ordered("-id"), negotiate.Identity); r.Body == nil {
		t.Error("no room was made when all was written")
	}
}

func TestADocumentThatWasOnlyConfirmedIsNotPreparedAgain(t *testing.T) {
	prepare := Prepare(shape.Banners, processors.New())
	d := documentOf(t, 30)
	p, err := prepare(d)
	testkit.Must(t, err)
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

// Lists that the types do not show pass through, and grow eight times by their indentation.
func TestAFormThatWouldNotFitAloneTakesNoOthersPlace(t *testing.T) {
	doc, err := shape.Normalize(shape.Rules, []byte(`[{"id":1,"exlude_pages":[`+strings.Repeat("1,", 200_000)+`1]}]`))
	testkit.Must(t, err)
	p, err := Prepare(shape.Rules, processors.New())(&cache.Document{Body: doc.Body, ETag: cache.ETag(doc.Body)})
	testkit.Must(t, err)
	r := p.Get(Key{Indent: 1}, negotiate.Identity)
	if large := p.Get(Key{Indent: 8}, negotiate.Identity); large.Size != len(doc.Body) || p.Get(Key{Indent: 1}, negotiate.Identity) != r {
		t.Errorf("%d bytes for a document of %d, and the form held is made again", large.Size, len(doc.Body))
	}
}

// A variant that its coding does not make smaller, or that has none, is counted for each coding that
// holds its bytes.
func TestAVariantWithoutACodingIsCountedAsLongAsItIsHeld(t *testing.T) {
	d := prepared(t, 3)
	k := ordered("-id")
	identity := d.Get(k, negotiate.Identity)
	coded := d.Get(k, negotiate.Gzip)
	if identity.Varies || coded.Encoding != negotiate.Identity || d.Get(k, negotiate.Gzip) != coded {
		t.Fatalf("%+v, %+v", identity, coded)
	}
	if n, bytes := d.derived.sizes(); n != 2 || bytes != int64(2*identity.Size) {
		t.Errorf("%d variants with %d bytes", n, bytes)
	}
	stream := coded.Stream()
	d.derived.limit = int64(identity.Size) // room for one, which is being written
	if r := d.Get(ordered("-created_at,-id"), negotiate.Identity); r.Body != nil {
		t.Error("it is dropped while it is written")
	}
	testkit.Must(t, stream.Close())
	if r := d.Get(ordered("-created_at,-id"), negotiate.Identity); r.Body == nil {
		t.Error("there is no room")
	}
}
