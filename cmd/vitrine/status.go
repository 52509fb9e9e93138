package main

import (
	"context"
	"runtime/debug"
	"time"

	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// statusTimeout bounds how long /api/status waits for a document. One that is
// held is there at once.
const statusTimeout = 500 * time.Millisecond

// status is what /api/status shows.
type status struct {
	Version   string                            `json:"version"`
	Started   time.Time                         `json:"started"`
	Upstream  upstreamStatus                    `json:"upstream"`
	Redis     redisStatus                       `json:"redis"`
	Resources map[shape.Resource]resourceStatus `json:"resources"`
}

type upstreamStatus struct {
	URL    string `json:"url"`
	Source string `json:"source"` // the fingerprint that documents in Redis carry

	BreakerOpen bool               `json:"breaker_open"`
	Breakers    []upstream.Breaker `json:"breakers"` // of each base URL, in order of preference
}

type redisStatus struct {
	Address   string `json:"address"`
	Embedded  bool   `json:"embedded"`
	Up        bool   `json:"up"`
	Listening bool   `json:"listening"` // purges are being heard
	Prefix    string `json:"prefix"`
}

// resourceStatus is what is held of a resource, and how the last fetch of this
// process went. The pointers are nil where there is nothing to tell.
type resourceStatus struct {
	Held      *heldStatus  `json:"held"`
	Error     string       `json:"error,omitempty"` // why nothing can be served
	LastFetch *fetchStatus `json:"last_fetch"`
}

type heldStatus struct {
	ETag       string    `json:"etag"`
	Bytes      int       `json:"bytes"`
	FetchedAt  time.Time `json:"fetched_at"`
	ChangedAt  time.Time `json:"changed_at"`
	FreshUntil time.Time `json:"fresh_until"`
	Stale      bool      `json:"stale"`
	Detail     string    `json:"detail,omitempty"` // in the words of Cache-Status
}

type fetchStatus struct {
	At           time.Time `json:"at"`
	Milliseconds float64   `json:"milliseconds"`
	Attempts     int       `json:"attempts"`
	Status       int       `json:"status,omitempty"`
	Error        string    `json:"error,omitempty"`
	Repairs      int       `json:"repairs"`

	Suspicions []upstream.Suspicion `json:"suspicions,omitempty"`
}

// status gathers what an operator may want to know of this process.
func (s *service) status() any {
	info, _ := debug.ReadBuildInfo()
	out := status{
		Version: versionOf(version, info),
		Started: s.started,
		Upstream: upstreamStatus{
			URL: s.client.String(), Source: s.client.Source(),
			BreakerOpen: s.client.BreakerOpen(), Breakers: s.client.Breakers(),
		},
		Redis: redisStatus{
			Address: s.store.Addr(), Embedded: s.store.Embedded(),
			Up: s.store.Up(), Listening: s.store.Listening(), Prefix: s.store.Prefix(),
		},
		Resources: make(map[shape.Resource]resourceStatus),
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	for _, r := range shape.Resources() {
		answer, err := s.readers[r].Get(ctx)
		told := resourceStatus{LastFetch: s.loaders[r].lastFetch()}
		if err != nil {
			told.Error = err.Error()
		} else {
			told.Held = &heldStatus{
				ETag: answer.Document.ETag, Bytes: len(answer.Document.Body),
				FetchedAt: answer.Document.FetchedAt, ChangedAt: answer.Document.ChangedAt, FreshUntil: answer.Document.FreshUntil,
				Stale: answer.Status.Stale, Detail: answer.Status.Detail,
			}
		}
		out.Resources[r] = told
	}
	return out
}

// checks say for /readyz whether each resource can be answered with 200.
func (s *service) checks() map[string]func(context.Context) error {
	checks := make(map[string]func(context.Context) error)
	for r, reader := range s.readers {
		checks[string(r)] = func(ctx context.Context) error {
			_, err := reader.Get(ctx)
			return err
		}
	}
	return checks
}
