package webhook

import (
	"encoding/base64"
	"encoding/hex"
	"testing"
)

// FuzzSignature: whatever is decoded is what the text encodes, in hexadecimal or base64.
func FuzzSignature(f *testing.F) {
	for _, s := range []string{"", "sha256=", "ab", "sha256=AB ", "q83v", "sha256=sha256=ab", "====", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sum := signature(text)
		if len(sum) > len(text) {
			t.Fatalf("%q: %d bytes", text, len(sum))
		}
		if len(sum)%3 == 0 && len(sum) > 0 {
			for _, again := range []string{"sha256=" + hex.EncodeToString(sum), base64.StdEncoding.EncodeToString(sum)} {
				if _, err := hex.DecodeString(again); err != nil || again[0] == 's' {
					if string(signature(again)) != string(sum) {
						t.Fatalf("%q: %x, but %q: %x", text, sum, again, signature(again))
					}
				}
			}
		}
	})
}
