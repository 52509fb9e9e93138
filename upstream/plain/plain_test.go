package plain

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatCannotBeSeenIsMadeVisible(t *testing.T) {
	for in, want := range map[string]string{
		"Zoë 草間 👩\u200d🎨":                 "Zoë 草間 👩\u200d🎨",
		"a\x1b[2Jb\r\nc\td":               `a\x1b[2Jb\r\nc\td`,
		"\u202egnp.exe\u2028\u0085\u200b": `\u202egnp.exe\u2028\u0085\u200b`,
		"\x9b31m\xff":                     "\uFFFD31m\uFFFD",
		"\x7f\x00":                        `\x7f\x00`,
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestClipCutsBetweenCharacters(t *testing.T) {
	if got := Clip("abcé", 4); got != "abc…" {
		t.Error(got)
	}
	if got := Clip("abcé", 5); got != "abcé" {
		t.Error(got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[31m\u202e\xff", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = max(min(most, 1000), 0)
		got := Clip(s, most)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, hidden) {
			t.Errorf("%q: %q", s, got)
		}
	})
}
