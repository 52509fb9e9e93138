package operator

import (
	"encoding/json"
	"net/http"
)

// get lets GET and HEAD through.
func get(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD")
		writeDetail(w, http.StatusMethodNotAllowed, "Method not allowed.")
	}
}

// writeDetail writes an error. The detail needs no escaping.
func writeDetail(w http.ResponseWriter, status int, detail string) {
	writeJSON(w, status, []byte(`{"detail":"`+detail+`"}`+"\n"))
}

// writeValue writes v as JSON.
func writeValue(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		writeDetail(w, http.StatusInternalServerError, "Internal server error.")
		return
	}
	writeJSON(w, status, []byte(visible(string(body))+"\n")) // an escape in a string of JSON is the same string
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
