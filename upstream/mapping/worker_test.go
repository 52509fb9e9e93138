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

	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compose maps items by a program, as a fetch does.
func compose(ctx context.Context, t *testing.T, source string, items ...string) ([]byte, error) {
	t.Helper()
	program, err := mapping.Compile("", "banners.map", source)
	if err != nil {
		t.Fatal(err)
	}
	part := mapping.Items{Root: "banners", List: true, Map: program, MaxItems: 1000}
	for _, item := range items {
		part.Items = append(part.Items, []byte(item))
	}
	var w mapping.Worker
	defer w.Close()
	return w.Compose(ctx, &mapping.Composition{Resource: shape.Banners, Preset: "custom", Parts: []mapping.Items{part}, MaxBytes: 1 << 20})
}

func TestProgramsRunInAProcessOfTheirOwn(t *testing.T) {
	got, err := compose(t.Context(), t, "{id: .key, env: env}", `{"key":1}`, `{"key":2}`)
	if err != nil || string(got) != `[{"id":1,"env":{}},{"id":2,"env":{}}]` {
		t.Errorf("%s, %v", got, err)
	}
	_, err = compose(t.Context(), t, ".\n| need(\"x\")", `{"key":1}`)
	want := `banners[0]: banners.map, line 2 (need("x")): key "x" is missing: not there, not expanded, or not permitted`
	if err == nil || err.Error() != want || !errors.Is(err, mapping.ErrProgram) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	_, err = compose(t.Context(), t, `[limit(200000; repeat("0123456789"))]`, `{}`)
	if !errors.Is(err, shape.ErrRefused) || !strings.Contains(err.Error(), "want at most 1048576 bytes, got more") {
		t.Errorf("%v", err)
	}
}

// A job is large before its program has begun.
func TestALargeItemReachesItsProgram(t *testing.T) {
	text := strings.Repeat("x", 20<<20)
	got, err := compose(t.Context(), t, "{id, title_en: (.title_en | length | tostring)}", `{"id":1,"title_en":"`+text+`"}`)
	if want := fmt.Sprintf(`[{"id":1,"title_en":"%d"}]`, len(text)); err != nil || string(got) != want {
		t.Errorf("%.100s, %v", got, err)
	}
}

// Each of these would take all memory, or the stack, of the process that it ran in.
func TestProgramsThatExhaustMemoryOrTheStackEndWithAnError(t *testing.T) {
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	for source, want := range map[string]string{
		`"0123456789" * 100000000`: "it takes more than 64 MiB of memory",
		`[range(1e12)]`:            "it takes more than 64 MiB of memory",
		`.[.n] = 1`:                "it takes more than 64 MiB of memory",
		`reduce range(60) as $i ([]; [., .]) | tojson`: "it takes more than 64 MiB of memory",
		`def f: [f, f]; f`: "it takes more than 64 MiB of memory",
		`reduce range(3000000) as $i (0; [.]) | tojson | length`: "",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		input := `{"n":1}`
		if source == ".[.n] = 1" {
			source = "(.n) as $n | [] | .[$n] = 1"
			input = `{"n":500000000}`
		}
		_, err := compose(ctx, t, source, input)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", source, err)
		}
	}
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("this process allocated %d bytes", grown)
	}
}

func TestProgramThatDoesNotEndEndsWithTheFetch(t *testing.T) {
	for _, source := range []string{"def f: f; f", "last(range(1e12))", `reduce range(40) as $i ([]; [., .]) | . == (. + [])`} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		_, err := compose(ctx, t, source, `{}`)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 20*time.Second {
			t.Errorf("%s: %v after %v", source, err, time.Since(began))
		}
	}
}

// A preset without programs works in this process, within a few times the memory of what came.
func TestValuesThatTakeManyTimesTheirJSONAreRefused(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 55) + "1" + strings.Repeat("}", 55)
	for name, item := range map[string]string{
		"nested":    `{"id":1,"x":[` + strings.Repeat(deep+",", 60000) + `1]}`,
		"no fields": `{"id":1,"x":[` + strings.Repeat("{},", 6000000) + `1]}`,
	} {
		part := mapping.Items{Root: "rules", List: true, MaxItems: 10, Items: [][]byte{[]byte(item)}}
		var w mapping.Worker
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, err := w.Compose(t.Context(), &mapping.Composition{Resource: shape.Rules, Preset: "strapi5", Parts: []mapping.Items{part}, MaxBytes: 64 << 20})
		runtime.ReadMemStats(&after)
		refused, ok := errors.AsType[*shape.RefusedError](err)
		if !ok || !strings.HasPrefix(refused.Path, "rules[0].x") {
			t.Errorf("%s: %.200v", name, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 6*uint64(len(item)) || time.Since(began) > 20*time.Second {
			t.Errorf("%s: allocated %d bytes for %d, in %v", name, grown, len(item), time.Since(began))
		}
	}
}

func TestListsAreBoundedWhileTheyAreRead(t *testing.T) {
	body := []byte("[" + strings.Repeat("{},", 8_000_000) + "{}]")
	var w mapping.Worker
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := w.Open(t.Context(), &mapping.Opening{Preset: "custom", Root: "rules", List: true, Body: body, Left: 1000, MaxItems: 1000})
	runtime.ReadMemStats(&after)
	if err == nil || err.Error() != "rules: want at most 1000 items, got more" {
		t.Errorf("%v", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(len(body)) {
		t.Errorf("allocated %d bytes for %d", grown, len(body))
	}
}

// Also where the first item is exactly as large as all of them may be.
func TestItemsThatAProgramFindsAreBoundedTogether(t *testing.T) {
	items, err := mapping.Compile("", "banners.items", ".")
	if err != nil {
		t.Fatal(err)
	}
	var w mapping.Worker
	defer w.Close()
	for body, want := range map[string]string{
		`["xxxxxx","y"]`:   "banners: want at most 8 bytes, got more",
		`["xxxxx","y"]`:    "banners: want at most 8 bytes, got more",
		`["xxxxxxxxxxxx"]`: "banners[0]: want at most 8 bytes, got more",
		`["xxxxxx"]`:       "",
	} {
		page, err := w.Open(t.Context(), &mapping.Opening{Preset: "custom", Root: "banners", List: true, Items: items, Body: []byte(body), Left: 10, MaxItems: 10, MaxBytes: 8})
		if want == "" && (err != nil || len(page.Items) != 1) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %q, %v; want %s", body, page.Items, err, want)
		}
	}
}

func TestHTMLTextIsLinear(t *testing.T) {
	for _, piece := range []string{"<a", "<!--", "<p ", "&", "<a b='"} {
		text := strings.Repeat(piece, 1<<20)
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
		mapping.NextLink(map[string][]string{"Link": {strings.Repeat(piece, 1<<18)}})
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}
