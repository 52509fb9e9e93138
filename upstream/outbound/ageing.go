package outbound

import (
	"net/http"
	"sync"
	"time"
)

// Ageing makes requests with copies of a transport, one after the other, so that no connection is
// used for longer than most: a name that leads elsewhere is then followed.
func Ageing(t *http.Transport, most time.Duration) *AgeingTransport {
	return &AgeingTransport{most: most, now: t, since: time.Now()}
}

// AgeingTransport is the result of [Ageing].
type AgeingTransport struct {
	most time.Duration

	mu          sync.Mutex // guards the fields below
	now, before *http.Transport
	since       time.Time
}

// RoundTrip makes a request.
func (a *AgeingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	a.mu.Lock()
	if time.Since(a.since) >= a.most {
		a.closeIdle()
		a.before, a.now, a.since = a.now, a.now.Clone(), time.Now()
	}
	t := a.now
	a.mu.Unlock()
	return t.RoundTrip(req)
}

// CloseIdleConnections closes the connections that no request uses.
func (a *AgeingTransport) CloseIdleConnections() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closeIdle()
}

// closeIdle also closes those that a request used when the transport before was left; later ones end
// with its IdleConnTimeout.
func (a *AgeingTransport) closeIdle() {
	a.now.CloseIdleConnections()
	if a.before != nil {
		a.before.CloseIdleConnections()
	}
}
