package watch

import (
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
	single   *redis.Options
	failover *redis.FailoverOptions
	cluster  *redis.ClusterOptions
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
		c.failover, err = redis.ParseFailoverURL(raw)
		kind = " (Sentinel)"
	case query.Has("addr"):
		c.cluster, err = redis.ParseClusterURL(raw)
		kind = " (Cluster)"
	default:
		c.single, err = redis.ParseURL(raw)
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

// seeds are the addresses in the URL.
func (c *connector) seeds() []string {
	switch {
	case c.failover != nil:
		return c.failover.SentinelAddrs
	case c.cluster != nil:
		return c.cluster.Addrs
	}
	return []string{c.single.Addr}
}

// addr is the address for redis-cli.
func (c *connector) addr() string { return strings.Join(c.seeds(), ",") }

// options are for connections to the server at addr. A failed call is repeated by [Server.Do] only,
// and times out after a silence rather than in total: see patient.
func (c *connector) options(addr string) *redis.Options {
	var o redis.Options
	switch {
	case c.failover != nil:
		o = redis.Options{Username: c.failover.Username, Password: c.failover.Password, DB: c.failover.DB, TLSConfig: c.failover.TLSConfig}
	case c.cluster != nil:
		o = redis.Options{Username: c.cluster.Username, Password: c.cluster.Password, TLSConfig: c.cluster.TLSConfig}
	default:
		o = *c.single
	}
	if o.Network != "unix" {
		o.Network = "tcp"
	}
	o.Addr = addr
	c.tune(&o)
	return &o
}

// voterOptions are for a Sentinel or a Cluster node that is asked for the masters.
func (c *connector) voterOptions(addr string) *redis.Options {
	if c.cluster != nil {
		return c.options(addr)
	}
	o := redis.Options{Network: "tcp", Addr: addr, Username: c.failover.SentinelUsername, Password: c.failover.SentinelPassword, TLSConfig: c.failover.TLSConfig}
	c.tune(&o)
	return &o
}

func (c *connector) tune(o *redis.Options) {
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = c.patience, c.patience, c.patience
	o.DialTimeout = max(c.patience, time.Second) // for the round trips of TLS, and a lost packet's first repetition
	o.ContextTimeoutEnabled, o.DisableIdentity = true, true
	o.ConnMaxIdleTime = 10 * time.Second // less than middleboxes remember
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	config, network := serverName(o.TLSConfig, o.Addr), o.Network
	o.TLSConfig = nil // the dialer below does it
	dialer := &net.Dialer{Timeout: o.DialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}}
	o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
		cn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if config == nil {
			return &patient{Conn: cn}, nil
		}
		secure := tls.Client(&patient{Conn: cn}, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = cn.Close()
			return nil, err
		}
		return secure, nil
	}
}

// serverName makes TLS check the certificate of the server dialled, not of the one that the URL
// names.
func serverName(c *tls.Config, addr string) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		c.ServerName = host
	}
	return c
}

// A patient connection takes a deadline as the length of a silence: each byte that gets through
// extends it, and so does each byte that may still be on its way, so that a big document is not
// taken for a server that hangs.
type patient struct {
	net.Conn
	read, write time.Duration // 0: no deadline
	unanswered  atomic.Int64  // bytes written since the last read
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
	if n > 0 && p.read > 0 {
		_ = p.Conn.SetReadDeadline(time.Now().Add(p.read))
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

// SyscallConn lets go-redis check whether the other side has closed the connection.
func (p *patient) SyscallConn() (syscall.RawConn, error) {
	if c, ok := p.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

func (p *patient) SetDeadline(t time.Time) error {
	p.read, p.write = length(t), length(t)
	return p.Conn.SetDeadline(t)
}

func (p *patient) SetReadDeadline(t time.Time) error {
	p.read = length(t)
	if p.read > 0 {
		t = t.Add(p.arriving())
	}
	return p.Conn.SetReadDeadline(t)
}

func (p *patient) SetWriteDeadline(t time.Time) error {
	p.write = length(t)
	return p.Conn.SetWriteDeadline(t)
}

// length is the time until t, or 0 without a deadline.
func length(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(time.Until(t), 1)
}
