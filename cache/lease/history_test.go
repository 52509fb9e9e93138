package lease

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestAVersionThatUnpacksToMuchIsNotUnpacked: the frame says its size, which is read first; one that says
// too little is damaged.
func TestAVersionThatUnpacksToMuchIsNotUnpacked(t *testing.T) {
	bomb := bytes.Repeat([]byte("[1],"), 16<<20) // 64 MiB
	packed := pack(bomb)
	encoder, err := zstd.NewWriter(nil, zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	var streamed bytes.Buffer // a frame without a size
	encoder.Reset(&streamed)
	if _, err := encoder.Write(bomb); err != nil {
		t.Fatal(err)
	}
	if err := encoder.Close(); err != nil {
		t.Fatal(err)
	}
	small := pack([]byte(`[{"id":1}]`))
	for name, c := range map[string]struct {
		packed []byte
		body   []byte
		most   int
		ok     bool
	}{
		"a document":              {small, []byte(`[{"id":1}]`), 10, true},
		"one byte more":           {small, []byte(`[{"id":1}]`), 9, false},
		"a bomb":                  {packed, bomb, 1 << 20, false},
		"a bomb without a size":   {streamed.Bytes(), bomb, 1 << 20, false},
		"a bomb after a document": {append(bytes.Clone(small), packed...), bomb, 1 << 20, false},
		"cut short":               {small[:len(small)-1], []byte(`[{"id":1}]`), 1 << 20, false},
		"nothing":                 {nil, nil, 1 << 20, false},
		"noise":                   {[]byte("noise"), nil, 1 << 20, false},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body, err := Unpack(c.packed, VersionOf(c.body), c.most)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
			t.Errorf("%s: %d bytes of memory", name, took)
		}
		if err == nil && !bytes.Equal(body, c.body) {
			t.Errorf("%s: %d bytes", name, len(body))
		}
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrNoVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
