package operator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"vitrine/proxy/operator/webhook"
)

// get lets GET and HEAD through.
func get(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD")
		webhook.Detail(w, http.StatusMethodNotAllowed, "Method not allowed.")
	}
}

// writeValue writes v as JSON.
func writeValue(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		webhook.Detail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	webhook.WriteJSON(w, status, []byte(visible(string(body))+"\n")) // an escape in a string of JSON is the same string
}

// visible writes the characters of text that a terminal, a browser or a reader would obey instead
// of showing as escapes, such as \u001b: control characters but tab and line feed, and marks that
// change the direction of text.
func visible(text string) string {
	if strings.IndexFunc(text, invisible) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if invisible(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func invisible(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
