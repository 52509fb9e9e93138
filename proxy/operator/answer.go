package operator

import (
	"encoding/json"
	"net/http"

	"vitrine/proxy/operator/webhook"
	"vitrine/upstream/sanitize"
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
	webhook.WriteJSON(w, status, []byte(sanitize.JSON(string(body))+"\n")) // an escape in a string of JSON is the same string
}
