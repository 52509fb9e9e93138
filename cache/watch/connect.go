package watch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A connector is a parsed URL: one server, the master that Sentinels name, or a Cluster.
type connector struct {
	seeds    []string       // the addresses in the URL
	server   *redis.Options // for a server, but for its address
	voter    *redis.Options // likewise for a Sentinel or a Cluster node that is asked for the masters; nil for one server
	master   string         // its name for Sentinels; "" without them
	patience time.Duration
}

// parseURL reads the URL in go-redis's own forms.
func parseURL(raw string, patience time.Duration) (*connector, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("redis URL: want redis://, rediss:// or unix://, got one that does not parse as a URL")
	}
	c, kind := &connector{patience: patience}, ""
	query := u.Query()
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return nil, fmt.Errorf("redis URL: want redis://, rediss:// or unix://, got the scheme %q", u.Scheme)
	case query.Has("master_name"):
		kind = " (Sentinel)"
		var o *redis.FailoverOptions
		if o, err = redis.ParseFailoverURL(raw); err == nil {
			c.seeds, c.master = o.SentinelAddrs, o.MasterName
			c.server = &redis.Options{Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig}
			c.voter = &redis.Options{Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig}
		}
	case query.Has("addr"):
		kind = " (Cluster)"
		var o *redis.ClusterOptions
		if db := strings.Trim(u.Path, "/"); db != "" && db != "0" {
			return nil, fmt.Errorf("redis URL (Cluster): want no database number, got %q: a Cluster has database 0 alone", db)
		}
		if o, err = redis.ParseClusterURL(raw); err == nil {
			c.seeds = o.Addrs
			c.server = &redis.Options{Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig}
			c.voter = c.server
		}
	default:
		if c.server, err = redis.ParseURL(raw); err == nil {
			c.seeds = []string{c.server.Addr}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("redis URL%s: %s", kind, redacted(err, u)) // its text may contain a password
	}
	return c, nil
}

// redacted is the text of an error without the URL's password.
func redacted(err error, u *url.URL) string {
	text := err.Error()
	if p, ok := u.User.Password(); ok && p != "" {
		text = strings.ReplaceAll(text, p, "xxxxx")
	}
	return text
}

// options are those of of for connections to addr. A failed call is repeated by [Server.Do] only,
// and times out after a silence rather than in total: see patient.
func (c *connector) options(of *redis.Options, addr string) *redis.Options {
	o := *of
	o.Network, o.Addr = cmp.Or(o.Network, "tcp"), addr
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.patience, c.patience, c.patience
	o.DialTimeout = max(c.patience, time.Second) // for the round trips of TLS, and a lost packet's first repetition
	o.ContextTimeoutEnabled, o.DisableIdentity = true, true
	o.ConnMaxIdleTime = 10 * time.Second // less than middleboxes remember
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	network, config := o.Network, o.TLSConfig.Clone()
	o.TLSConfig = nil // the dialer below does it
	dialer := &net.Dialer{Timeout: o.DialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}}
	dial := dialer.DialContext
	if config != nil {
		config.ServerName = "" // the one that is dialled, not that of the URL
		dial = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext
	}
	o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
		cn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		p := &patient{Conn: cn}
		if raw, ok := cn.(syscall.Conn); ok { // not TLS, where what has come is not all data
			return struct { // go-redis checks whether the other side has closed it
				*patient
				syscall.Conn
			}{p, raw}, nil
		}
		return p, nil
	}
	return &o
}

// A patient connection extends a deadline for each byte that gets through, and for each that may
// still be on its way, so that a big document is not taken for a server that hangs: by the time
// that it takes on the slowest link when reading, since a server could send one at a time for ever.
type patient struct {
	net.Conn
	read       time.Time     // the deadline; zero for none
	write      time.Duration // 0: no deadline
	unanswered atomic.Int64  // bytes written since the last read
}

const (
	// chunk is how much is written at once, which must get through within the patience.
	chunk = 64 << 10
	// Slowest is how many bytes per second a link lets through at least.
	Slowest = 1 << 20
)

func (p *patient) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.unanswered.Store(0)
	if n > 0 && !p.read.IsZero() {
		p.read = p.read.Add(time.Duration(n) * time.Second / Slowest)
		_ = p.Conn.SetReadDeadline(p.read)
	}
	return n, err
}

func (p *patient) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var wrote int
		wrote, err = p.Conn.Write(b[n:min(len(b), n+chunk)])
		n += wrote
		p.unanswered.Add(int64(wrote))
		if wrote > 0 && p.write > 0 {
			_ = p.Conn.SetWriteDeadline(time.Now().Add(p.write + p.arriving()))
		}
	}
	return n, err
}

// arriving is how long what was written may still be on its way.
func (p *patient) arriving() time.Duration {
	return time.Duration(p.unanswered.Load()) * time.Second / Slowest
}

func (p *patient) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		t = t.Add(p.arriving())
	}
	p.read = t
	return p.Conn.SetReadDeadline(t)
}

func (p *patient) SetWriteDeadline(t time.Time) error {
	if p.write = 0; !t.IsZero() {
		p.write = max(time.Until(t), 1)
	}
	return p.Conn.SetWriteDeadline(t)
}
