package operator

import (
	"context"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"vitrine/proxy/operator/webhook"
)

const (
	// Making answers takes at most a quarter of one processor's time, since visitors come first:
	// shareRate microseconds a second, after a burst of shareBurst.
	shareRate  = 250_000
	shareBurst = 1_000_000

	// answerTimeout bounds waiting for a turn and making the answer.
	answerTimeout = 20 * time.Second
	busyDetail    = "The operator's address is busy."

	// maxDocuments bounds the documents in memory that are waiting for their clients to read them.
	maxDocuments = 2
)

// takeTurns has one answer made at a time, within the share. http.TimeoutHandler writes it
// afterwards: a client that reads slowly holds nobody up, except for further documents. Health
// checks, the webhook and profiles wait for nobody.
func takeTurns(next http.Handler) http.Handler {
	turn, share := semaphore.NewWeighted(1), rate.NewLimiter(shareRate, shareBurst)
	documents := semaphore.NewWeighted(maxDocuments)
	turns := http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if turn.Acquire(r.Context(), 1) != nil {
			return // answered by the timeout, or the client has gone
		}
		defer turn.Release(1)
		if share.Wait(r.Context()) != nil {
			webhook.Detail(w, http.StatusServiceUnavailable, busyDetail)
			return
		}
		began := time.Now()
		defer func() { share.ReserveN(time.Now(), int(min(shareBurst, time.Since(began).Microseconds()))) }()
		next.ServeHTTP(w, r)
	}), answerTimeout, `{"detail":"`+busyDetail+`"}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open[r.URL.Path] || strings.HasPrefix(r.URL.Path, "/debug/") {
			next.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/documents/") {
			ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
			defer cancel()
			if documents.Acquire(ctx, 1) != nil {
				webhook.Detail(w, http.StatusServiceUnavailable, busyDetail)
				return
			}
			defer documents.Release(1)
		}
		w.Header().Set("Content-Type", "application/json") // of the timeout; other answers name theirs
		turns.ServeHTTP(w, r)
	})
}
