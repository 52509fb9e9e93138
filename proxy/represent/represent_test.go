package represent

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
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

// get asks, and writes nothing.
func (d *Document) get(k Key, e negotiate.Encoding) *Representation {
	r, lease := d.Get(k, e)
	lease.Release()
	return r
}

// ordered is the key of an ordering.
func ordered(value string) Key { return Key{Ordering: negotiate.ParseOrdering([]byte(value))} }

// content is what is written of a representation.
func content(r *Representation) []byte {
	if r.Body != nil {
		return r.Body
	}
	return r.Items.appendTo(nil)
}

func prepared(t testing.TB, banners int) *Document {
	t.Helper()
	p, err := Prepare(shape.Banners, new(processors.Half))(documentOf(t, banners))
	testkit.Must(t, err)
	return p
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
			r := p.get(key, negotiate.Gzip)
			if again := p.get(key, negotiate.Gzip); again != r {
				t.Fatal("a form just made is not held")
			}
			held := *p.derived.forms.Load()
			if bytes := size(held); len(held) > maxDerived || bytes > p.derived.limit && len(held) > 1 {
				t.Fatalf("%d forms of %d bytes held for a document of %d", len(held), bytes, p.base.size())
			}
		}
	}
}

func TestTheLeastRecentlyUsedOrderingGoesFirst(t *testing.T) {
	p := prepared(t, 3)
	popular := ordered("-id")
	r := p.get(popular, negotiate.Identity)
	names := shape.BannerFields()
	for i := range 500 {
		key := ordered(names[i%15] + "," + names[i/15%15] + "," + names[i/225%15])
		key.Indent = 1
		p.get(key, negotiate.Identity)
		if p.get(popular, negotiate.Identity) != r {
			t.Fatalf("an ordering that is asked for all the time was made again after %d others", i+1)
		}
	}
}

func TestAnOrderingThatIsTheCMSsOrderIsTheDocumentItself(t *testing.T) {
	p := prepared(t, 20)
	for _, value := range []string{"id", "language_en,id", "created_at", "-updated_at"} {
		for _, e := range []negotiate.Encoding{negotiate.Identity, negotiate.Brotli} {
			if r := p.get(ordered(value), e); r != p.get(Key{}, e) {
				t.Errorf("%s is held for itself", value)
			}
		}
	}
	if n := size(*p.derived.forms.Load()); n != 0 {
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
			r := p.get(Key{Indent: 1}, negotiate.Brotli)
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

// occupy keeps all builders busy until the test calls what it returns.
func occupy(t *testing.T, builders *processors.Half) (leave func()) {
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
	want := p.base.identity.Body
	if order != nil {
		want = p.banners.items(order).appendTo(nil)
	}
	if got := content(r); !bytes.Equal(got, want) || r.Size != len(want) || string(r.Tag) != cache.ETag(want) || r.Encoding != negotiate.Identity || !r.Varies {
		t.Errorf("ordered by %q: %d bytes of %q in %q, want %d of %s", ordering, len(got), r.Tag, r.Encoding, len(want), cache.ETag(want))
	}
}

func TestWhileBuildersAreBusyAnAnswerIsPlainAndRight(t *testing.T) {
	p := prepared(t, 200)
	p.get(ordered("-created_at,title_en"), negotiate.Identity)
	leave := occupy(t, p.builders)
	// What needs no order is answered at once.
	isPlain(t, p, p.get(Key{Indent: 4}, negotiate.Brotli), "")
	isPlain(t, p, p.get(ordered("-created_at,title_en"), negotiate.Brotli), "-created_at,title_en")
	// What does waits for its turn, and holds no copy of the document.
	key := ordered("title_en")
	key.Indent = 2
	answered := make(chan *Representation)
	go func() { answered <- p.get(key, negotiate.Zstd) }()
	for waiting := false; !waiting; runtime.Gosched() {
		p.derived.mu.Lock()
		_, waiting = p.derived.recent[want{key, negotiate.Zstd}]
		p.derived.mu.Unlock()
	}
	select {
	case <-answered:
		t.Fatal("ordered without a builder")
	default:
	}
	before := len(*p.derived.forms.Load())
	leave()
	if r := testkit.Receive(t, answered); r.Body != nil {
		t.Log("the builder was free by then") // both are right
	} else {
		isPlain(t, p, r, "title_en")
		if n := len(*p.derived.forms.Load()); n != before {
			t.Errorf("%d forms are held, %d before", n, before)
		}
	}
	// Asked for again, it is worth building.
	if r := p.get(key, negotiate.Zstd); r.Encoding != negotiate.Zstd {
		t.Errorf("asked for again: encoded as %q", r.Encoding)
	}
}

func TestWhatIsBeingWrittenIsNotDroppedAndNothingIsBuiltBeyondTheRoomLeft(t *testing.T) {
	p := prepared(t, 3000)
	names := shape.BannerFields()
	var leases []Lease
	reps := map[string]*Representation{}
	for i, name := range names[:7] {
		ordering := "-" + name + ",title_en,title_nl"
		r, lease := p.Get(ordered(ordering), negotiate.Identity)
		leases, reps[ordering] = append(leases, lease), r
		if bytes := size(*p.derived.forms.Load()); bytes > p.derived.limit {
			t.Fatalf("%d bytes are held, want at most %d", bytes, p.derived.limit)
		}
		if full := r.Body != nil; full != (i < 2) { // there is room for two
			t.Errorf("ordering %d: built is %t", i, full)
		}
		isPlain(t, p, r, ordering)
	}
	for ordering, r := range reps {
		if held := p.derived.find(ordered(ordering)) != nil; held != (r.Body != nil) {
			t.Errorf("%s: held is %t while it is being written", ordering, held)
		}
	}
	for _, l := range leases {
		l.Release()
	}
	if r := p.get(ordered("-id"), negotiate.Identity); r.Body == nil {
		t.Error("no room was made when all was written")
	}
}

func TestADocumentThatWasOnlyConfirmedIsNotPreparedAgain(t *testing.T) {
	prepare := Prepare(shape.Banners, new(processors.Half))
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
	p, err := Prepare(shape.Rules, new(processors.Half))(&cache.Document{Body: doc.Body, ETag: cache.ETag(doc.Body)})
	testkit.Must(t, err)
	r := p.get(Key{Indent: 1}, negotiate.Identity)
	if large := p.get(Key{Indent: 8}, negotiate.Identity); large.Size != len(doc.Body) || p.get(Key{Indent: 1}, negotiate.Identity) != r {
		t.Errorf("%d bytes for a document of %d, and the form held is made again", large.Size, len(doc.Body))
	}
}

// With two builders, one may drop a form for room while the other compresses it.
func TestAFormThatWasDroppedWhileItGrewIsNotHeldAgain(t *testing.T) {
	d := prepared(t, 100)
	k := ordered("-id")
	d.get(k, negotiate.Identity)
	f := d.derived.find(k)
	d.derived.limit = f.size() // room for one
	if d.get(ordered("title_en"), negotiate.Identity); d.derived.find(k) != nil {
		t.Fatal("it is held beside another")
	}
	d.derived.limit = derivedBytes(1 << 20)
	if d.derived.keep(k, f, 10) || d.derived.find(k) != nil {
		t.Error("it is, and nobody can lease it")
	}
	if r := d.get(k, negotiate.Gzip); r.Encoding != negotiate.Gzip || d.derived.find(k) == f {
		t.Errorf("it is not built again: %+v", r)
	}
}

func TestWhoWaitsForABuilderThatPanicsPanics(t *testing.T) {
	d := prepared(t, 3)
	w := want{key: ordered("-id"), coding: negotiate.Identity}
	synctest.Test(t, func(t *testing.T) {
		go func() {
			defer func() { _ = recover() }() // it is the waiter's that counts
			_, _, _ = d.derived.building.Do(w.name(), func() (any, error) {
				<-time.After(time.Second)
				panic("cannot build")
			})
		}()
		synctest.Wait()
		defer func() {
			if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "cannot build") {
				t.Errorf("want the builder's panic, got %v", p)
			}
		}()
		d.get(w.key, w.coding)
	})
}

func TestWhatWasAskedForOnceIsRememberedInBounds(t *testing.T) {
	var s derived
	s.init(1)
	for i := range 3 * maxRecent {
		w := want{coding: negotiate.Encoding(i >> 8), key: Key{Indent: uint8(i)}}
		if s.askedBefore(w) || !s.askedBefore(w) {
			t.Fatalf("want %d is not asked for before, and then is", i)
		}
		if len(s.recent) > maxRecent {
			t.Fatalf("%d are remembered, want at most %d", len(s.recent), maxRecent)
		}
	}
}
