package negotiate

import (
	"slices"
	"strings"
	"testing"
)

func TestAcceptEncodingRFC9110Section12_5_3(t *testing.T) {
	const br, zstd, gzip, identity = Brotli, Zstd, Gzip, Identity
	for _, tc := range []struct {
		value string
		want  Encoding
	}{
		{"", identity},
		{"identity", identity},
		{"gzip", gzip},
		{"GZIP", gzip},
		{"x-gzip", gzip},
		{"br", br},
		{"zstd", zstd},
		{"gzip, deflate, br, zstd", br},
		{"gzip, deflate, zstd", zstd},
		{"deflate, compress", identity},
		{"*", br},
		{"br;q=0, *", zstd},
		{"*;q=0.5, gzip", gzip},
		{"gzip;q=0.5", gzip},
		{"gzip;q=0.5, identity", identity},
		{"gzip;q=0.5, identity;q=0.5", gzip},
		{"br;q=0.1, gzip;q=0.9", gzip},
		{"br;q=0.899,zstd;q=0.9", zstd},
		{"gzip;q=0", identity},
		{"gzip;q=0.000, br;q=0.001", br},
		{"identity;q=0, gzip", gzip},
		{"identity;q=0, *;q=0.1", br},
		// Nothing that is offered is accepted: the answer is readable all the same.
		{"identity;q=0", identity},
		{"*;q=0", identity},
		// Elements outside of the grammar are skipped.
		{"gzip;q=1.5", identity},
		{"gzip;q=-1", identity},
		{"gzip;q=0.1234", identity},
		{"gzip;q=", identity},
		{"gzip;level=9", identity},
		{"gzip;q=1;x=y, zstd", zstd},
		{"gzip;q=nan, br ; q=0.2", br},
		{",, gzip ,", gzip},
		{"gzipp", identity},
	} {
		if got := ChooseEncoding([]byte(tc.value)); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.value, got.String(), tc.want.String())
		}
	}
}

// FuzzChooseEncoding: the order of the elements does not matter, no coding is chosen that is not
// named in some way, and what is forbidden is not made acceptable by more elements that forbid it.
func FuzzChooseEncoding(f *testing.F) {
	for _, s := range []string{"gzip, deflate, br", "br;q=0.1, *;q=0", "identity;q=0", ";q=,", "x-gzip;q=1.000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got := ChooseEncoding([]byte(value))
		elements := strings.Split(value, ",")
		slices.Reverse(elements)
		if reversed := ChooseEncoding([]byte(strings.Join(elements, ","))); reversed != got {
			t.Errorf("%q: %q, reversed %q", value, got.String(), reversed.String())
		}
		name := got.String()
		if lower := strings.ToLower(value); !strings.Contains(lower, name) && !strings.Contains(lower, "*") {
			t.Errorf("%q: %q was not asked for", value, name)
		}
		if again := ChooseEncoding([]byte(value + ", br;q=0, zstd;q=0, gzip;q=0, identity;q=0")); got == Identity && again != got {
			t.Errorf("%q: forbidding all chose %q", value, again.String())
		}
	})
}
