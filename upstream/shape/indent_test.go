package shape

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestIndent(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{`[]`, 4, `[]`},
		{`{}`, 4, `{}`},
		{`[[],{}]`, 1, "[\n [],\n {}\n]"},
		{`{"a":"{[,:]}\\","b\"":[1]}`, 2, "{\n  \"a\": \"{[,:]}\\\\\",\n  \"b\\\"\": [\n    1\n  ]\n}"},
		{`[1,2]`, 0, `[1,2]`},
		{`[1,2]`, -1, `[1,2]`},
	} {
		if got := string(Indent([]byte("x"), []byte(c.in), c.n)); got != "x"+c.want {
			t.Errorf("%s by %d: got %s, want x%s", c.in, c.n, got, c.want)
		}
	}
}

func TestIndentStaysInBoundsWhateverItGets(t *testing.T) {
	got := Indent(nil, []byte(strings.Repeat("[", 1_000)), 8)
	if limit := 1_000 * (2 + 8*maxDepth); len(got) > limit {
		t.Errorf("%d bytes, want at most %d", len(got), limit)
	}
}

// FuzzIndent holds Indent against the standard library on compact JSON, and to no panic on anything
// else.
func FuzzIndent(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":[]}],"c":"\"{"}`), 4)
	f.Add([]byte(`"\`), 1)
	f.Add([]byte(`]}[`), 8)
	f.Fuzz(func(t *testing.T, in []byte, n int) {
		n %= 9
		got := Indent(nil, in, n)
		var compact, want bytes.Buffer
		if json.Compact(&compact, in) != nil || depthOf(in) > maxDepth {
			return
		}
		got = Indent(got[:0], compact.Bytes(), n)
		if n <= 0 {
			want = compact
		} else if err := json.Indent(&want, compact.Bytes(), "", strings.Repeat(" ", n)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%s by %d: got\n%s\nwant\n%s", compact.Bytes(), n, got, want.Bytes())
		}
	})
}

// depthOf returns at least how deep in is nested.
func depthOf(in []byte) int {
	return bytes.Count(in, []byte("[")) + bytes.Count(in, []byte("{"))
}
