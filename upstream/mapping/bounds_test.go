package mapping_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vitrine/cmd/testkit"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compose maps items by a program, as a fetch does.
func compose(ctx context.Context, t *testing.T, source string, items ...string) ([]byte, error) {
	t.Helper()
	program, err := mapping.Compile("", "banners.map", source)
	testkit.Must(t, err)
	part := mapping.Items{Root: "banners", List: true, Maps: []*mapping.Program{program}, MaxItems: 1000}
	for _, item := range items {
		part.Items = append(part.Items, []byte(item))
	}
	c := &mapping.Composition{Root: "banners", Parts: []mapping.Items{part}, MaxBytes: 1 << 20}
	watched, stop := mapping.Watch(ctx, 0)
	defer stop()
	return c.Compose(watched)
}

func TestProgramsOfAPartSeeOneItemAtATime(t *testing.T) {
	got, err := compose(t.Context(), t, "{id: .key, env: env}", `{"key":1}`, `{"key":2}`)
	if err != nil || string(got) != `[{"env":{},"id":1},{"env":{},"id":2}]` {
		t.Errorf("%s, %v", got, err)
	}
	_, err = compose(t.Context(), t, ".\n| need(\"x\")", `{"key":1}`)
	want := `banners[0]: banners.map: key "x" is missing: not there, not expanded, or not permitted`
	if err == nil || err.Error() != want || !errors.Is(err, mapping.ErrProgram) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	_, err = compose(t.Context(), t, `[limit(200000; repeat("0123456789"))]`, `{}`)
	if !errors.Is(err, shape.ErrRefused) || !strings.Contains(err.Error(), "want at most 1048576 bytes, got more") {
		t.Errorf("%v", err)
	}
}

// TestProgramsThatGrowEndWithAnError has programs that take memory in many steps, in values, in
// calls, and in texts. That of the whole process is back afterwards.
func TestProgramsThatGrowEndWithAnError(t *testing.T) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, source := range []string{
		`[range(1e12)]`, `"x" | until(false; . + .)`,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := compose(ctx, t, source, `{"n":1}`)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "banners[0]: banners.map: ") || !errors.Is(err, mapping.ErrProgram) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", source, err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int(after.HeapAlloc) - int(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("this process keeps %d bytes", grown)
	}
}

// TestProgramsDoNotAnswerForTheMemoryOfOthers has a small fetch beside a large one.
func TestProgramsDoNotAnswerForTheMemoryOfOthers(t *testing.T) {
	small, stopSmall := mapping.Watch(t.Context(), 0)
	defer stopSmall()
	_, stopLarge := mapping.Watch(t.Context(), 32<<20)
	defer stopLarge()
	taken := make([]byte, 200<<20)
	<-time.After(50 * time.Millisecond)
	testkit.Check(t, context.Cause(small))
	runtime.KeepAlive(taken)
}

// Values are decoded within a few times the memory of what came.
func TestValuesThatTakeManyTimesTheirJSONAreRefused(t *testing.T) {
	program, err := mapping.Compile("", "rules.map", ".")
	testkit.Must(t, err)
	deep := strings.Repeat(`{"a":`, 55) + "1" + strings.Repeat("}", 55)
	for name, item := range map[string]string{
		"nested":    `{"id":1,"x":[` + strings.Repeat(deep+",", 60000) + `1]}`,
		"no fields": `{"id":1,"x":[` + strings.Repeat("{},", 6000000) + `1]}`,
	} {
		part := mapping.Items{Root: "rules", List: true, MaxItems: 10, Items: [][]byte{[]byte(item)}, Maps: []*mapping.Program{program}}
		began := time.Now()
		var err error
		grown := testkit.Allocated(func() {
			_, err = (&mapping.Composition{Root: "rules", Parts: []mapping.Items{part}, MaxBytes: 64 << 20}).Compose(t.Context())
		})
		refused, ok := errors.AsType[*shape.RefusedError](err)
		if !ok || !strings.HasPrefix(refused.Path, "rules[0].x") {
			t.Errorf("%s: %.200v", name, err)
		}
		if grown > 6*len(item) || time.Since(began) > 20*time.Second {
			t.Errorf("%s: allocated %d bytes for %d, in %v", name, grown, len(item), time.Since(began))
		}
	}
}

func TestListsAreBoundedWhileTheyAreRead(t *testing.T) {
	body := []byte("[" + strings.Repeat("{},", 8_000_000) + "{}]")
	var err error
	grown := testkit.Allocated(func() {
		_, err = (&mapping.Opening{Root: "rules", List: true, Body: body, Left: 1000, MaxItems: 1000}).Open(t.Context())
	})
	if err == nil || err.Error() != "rules: want at most 1000 items, got more" {
		t.Errorf("%v", err)
	}
	if grown > len(body) {
		t.Errorf("allocated %d bytes for %d", grown, len(body))
	}
}

// Also where the first item is exactly as large as all of them may be.
func TestItemsThatAProgramFindsAreBoundedTogether(t *testing.T) {
	items, err := mapping.Compile("", "banners.items", "map(.)")
	testkit.Must(t, err)
	for body, want := range map[string]string{
		`["xxxxxx","y"]`:   "banners: want at most 8 bytes, got more",
		`["xxxxx","y"]`:    "banners: want at most 8 bytes, got more",
		`["xxxxxxxxxxxx"]`: "banners[0]: want at most 8 bytes, got more",
		`["xxxxxx"]`:       "",
	} {
		page, err := (&mapping.Opening{Root: "banners", List: true, Items: items, Body: []byte(body), Left: 10, MaxItems: 10, MaxBytes: 8}).Open(t.Context())
		if want == "" && (err != nil || len(page.Items) != 1) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %q, %v; want %s", body, page.Items, err, want)
		}
	}
}

func TestHTMLTextIsLinear(t *testing.T) {
	for _, piece := range []string{"<a", "<!--", "<p ", "&", "<a b='"} {
		text := strings.Repeat(piece, 1<<16)
		began := time.Now()
		_, err := run(t.Context(), t, "html_text", fmt.Sprintf("%q", text), 0)
		if err != nil && !errors.Is(err, shape.ErrRefused) || time.Since(began) > 20*time.Second {
			t.Errorf("%s: %v after %v", piece, err, time.Since(began))
		}
	}
}

func TestLinkHeadersAreReadOnce(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{`<a?page=1>; rel="prev", <a?page=2>; rel="next"`}, "a?page=2"},
		{[]string{`<a>; title="x, <b>; rel=next"; rel=prev`, `<c>;rel=NEXT`}, "c"},
		{[]string{`<a,b>;x=";";rel=next`}, "a,b"},
		{[]string{`<a>; rel = "next"`}, "a"},
		{[]string{`a; rel=next`, `<a`, ``}, ""},
	} {
		if got := mapping.NextLink(map[string][]string{"Link": c.lines}); got != c.want {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
	began := time.Now()
	for _, piece := range []string{"<a>;", "<a>,", "<", `<a>;x="`, "<a>;;"} {
		mapping.NextLink(map[string][]string{"Link": {strings.Repeat(piece, 1<<15)}})
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}
