package operator

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync/atomic"
)

// HookPath is where a CMS says that its content changed.
const HookPath = "/hooks/content"

// A guard lets those in who know the token. Its zero value lets everybody in.
type guard struct {
	// digest is of the token: it has one length, so that the comparison tells nothing of the token's.
	digest atomic.Pointer[[sha256.Size]byte]
}

// open are the paths that need no token: a kubelet or a balancer that asks whether the process is well has none, and
// they tell nothing of the content. The webhook has a secret of its own, which a CMS is told instead.
var open = map[string]bool{"/livez": true, "/readyz": true, HookPath: true}

// SetToken replaces the token, from the next request on. Empty asks for none.
func (s *Server) SetToken(token string) { s.guard.set(token) }

func (g *guard) set(token string) {
	if token == "" {
		g.digest.Store(nil)
		return
	}
	digest := sha256.Sum256([]byte(token))
	g.digest.Store(&digest)
}

// protect asks for the token before next.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open[r.URL.Path] || g.admits(r) {
			next.ServeHTTP(w, r)
			return
		}
		// Two challenges: a browser takes the one that it can ask its user for, tools take the other.
		w.Header().Add("WWW-Authenticate", `Bearer realm="vitrine"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="vitrine", charset="UTF-8"`)
		writeJSON(w, http.StatusUnauthorized, []byte(`{"detail":"Authentication credentials were not provided or are wrong."}`+"\n"))
	})
}

// admits reports whether r brings the token: as a bearer's, or as the password of any user.
func (g *guard) admits(r *http.Request) bool {
	digest := g.digest.Load()
	if digest == nil {
		return true
	}
	token, ok := bearer(r)
	if !ok {
		_, token, ok = r.BasicAuth()
	}
	given := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(given[:], digest[:]) == 1 && ok
}

// bearer returns the token of an Authorization header of that scheme (RFC 6750, section 2.1).
func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}
