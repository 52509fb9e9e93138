package sanitize

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestInvisibleCharactersAreEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"Zoë 草間\u00a0👩\u200d🎨":            "Zoë 草間\u00a0👩\u200d🎨",
		"a\x1b[2Jb\r\nc\td":               `a\x1b[2Jb\r\nc\td`,
		"\u202egnp.exe\u2028\u0085\u200b": `\u202egnp.exe\u2028\u0085\u200b`,
		"\x9b31m\xff":                     "\uFFFD31m\uFFFD",
		"\x7f\x00\U000e0001":              `\x7f\x00\U000e0001`,
		strings.Repeat("é", Most-1):       strings.Repeat("é", Most-1),
		strings.Repeat("é", 2*Most):       strings.Repeat("é", Most-1) + "…",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestJSONKeepsLinesAndTheValuesOfStrings(t *testing.T) {
	for in, want := range map[string]string{
		"{\n\t\"a\": \"é\u00a0👩\u200d🎨\"\n}":   "{\n\t\"a\": \"é\u00a0👩\u200d🎨\"\n}",
		"\"\x1b\u0085\u202e\u2028\U000e0001\"": `"\u001b\u0085\u202e\u2028\udb40\udc01"`,
		"\x9b31m":                              "\uFFFD31m",
	} {
		if got := JSON(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestClipCutsBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{{"abcdé", 4, "abcd…"}, {"abcé", 4, "abcé"}, {"ab\x00\x00", 9, `ab\x00…`}, {"ab\x00", 6, `ab\x00`}, {"ab\x00", 5, "ab…"}} {
		if got := Clip(c.in, c.most); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.in, c.most, got, c.want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[31m\u202e\xff\U000e0001", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = max(min(most, 1000), 1)
		got := Clip(s, most)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, hidden) || utf8.RuneCountInString(got) > most+1 {
			t.Errorf("%q: %q", s, got)
		}
		var same string
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := JSON(string(encoded)); strings.ContainsFunc(got, hidden) || json.Unmarshal([]byte(got), &same) != nil || same != strings.ToValidUTF8(s, "\uFFFD") && utf8.ValidString(s) {
			t.Errorf("%q: %s", s, got)
		}
	})
}

func TestASecretIsMaskedAsItIsInJSONAndInAURL(t *testing.T) {
	const secret = `a+b/c d&"1>=`
	quoted, _ := json.Marshal(secret)
	for _, repeated := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(quoted), `"`)} {
		if got := Mask("?k="+repeated+"&n=2 of tok3n", secret, "Bearer tok3n", "123", ""); got != "?k=********&n=2 of ********" {
			t.Errorf("%s: %s", repeated, got)
		}
	}
	if got := Mask(`got "012345… or a+b/c ... and …`, "Bearer 0123456789", secret); got != `got "********… or ******** ... and …` {
		t.Error(got)
	}
}
