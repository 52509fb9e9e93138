package harness

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// PurgeBound is the default of redis.purge_bound.
const PurgeBound = 50 * time.Millisecond

// Content is the banners of a CMS: a single one, whose id is the version.
type Content struct {
	CMS     *upstreamtest.CMS
	Version atomic.Int64 // the newest
	floor   atomic.Int64 // the oldest that may be served,
	since   atomic.Int64 // to requests from then on, Unix nanoseconds
}

// NewContent is a CMS with the first version.
func NewContent(t testing.TB) *Content {
	c := &Content{CMS: upstreamtest.New(t)}
	c.Publish()
	c.floor.Store(1)
	return c
}

// Banners is the newest content.
func (c *Content) Banners() string { return fmt.Sprintf(`[{"id":%d}]`, c.Version.Load()) }

// Publish puts a new version into the CMS.
func (c *Content) Publish() {
	c.Version.Add(1)
	c.CMS.Set(shape.Banners, c.Banners())
}

// Purge removes the document from Redis once a new version of it is published.
func (c *Content) Purge(t testing.TB, redis *redistest.Server) {
	t.Helper()
	c.Publish()
	c.Remove(t, redis)
}

// Remove removes the document from Redis: nothing older than what was published last is served.
func (c *Content) Remove(t testing.TB, redis *redistest.Server) {
	t.Helper()
	testkit.Must(t, testkit.Retry(func() error { return redis.Client().Del(context.Background(), "vitrine:banners").Err() }))
	c.since.Store(time.Now().Add(PurgeBound).UnixNano())
	c.floor.Store(c.Version.Load())
}

// BannerID finds the version in a document.
var BannerID = regexp.MustCompile(`"id":(\d+)`)

// Judge is an error for a body that is not the CMS's, or older than the last purge when it was
// asked for.
func (c *Content) Judge(body []byte, began time.Time) error {
	floor := c.floor.Load() // before since, which a purge sets first
	if began.UnixNano() < c.since.Load() {
		floor = 1
	}
	found := BannerID.FindSubmatch(body)
	if found == nil {
		return fmt.Errorf("%.60q", body)
	}
	if v, _ := strconv.ParseInt(string(found[1]), 10, 64); v < floor || v > c.Version.Load() {
		return fmt.Errorf("version %d of %d to %d", v, floor, c.Version.Load())
	}
	return nil
}
