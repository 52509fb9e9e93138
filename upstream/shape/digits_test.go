package shape

import (
	"strings"
	"testing"
	"time"
)

// TestNumbersAreReadInTimeLinearInTheirDigits has integers of two million digits.
func TestNumbersAreReadInTimeLinearInTheirDigits(t *testing.T) {
	zeros := strings.Repeat("0", 2_000_000)
	for number, want := range map[string]string{
		"1." + zeros:                          "1",
		"1" + zeros + "e-2000000":             "1",
		"0." + zeros[1:] + "7e2000000":        "7",
		"-1." + zeros + "1":                   "",
		"1" + zeros:                           "",
		"1" + zeros + "e-9999999999999999999": "",
		"0." + zeros + "e9999999999999999999": "0",
	} {
		began := time.Now()
		doc, err := Normalize(Banners, []byte(`[{"id":`+number+`}]`))
		if took := time.Since(began); took > 20*time.Second {
			t.Fatalf("%.20s…: %v", number, took)
		}
		if want == "" && err == nil || want != "" && (err != nil || !strings.HasPrefix(string(doc.Body), `[{"id":`+want+`,`)) {
			t.Errorf("%.20s…: %.60s, %.200v", number, doc.Body, err)
		}
	}
}
