package poll

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"vitrine/cache/reply"
)

// A connector is a parsed URL: one server, the master that Sentinels name, or a Cluster.
type connector struct {
	seeds    []string       // the addresses in the URL
	server   *redis.Options // for a server, but for its address
	sentinel *redis.Options // likewise for a Sentinel
	master   string         // its name for Sentinels; "" without them
	cluster  bool
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
	for name := range query {
		if name == "read_only" || name == "replica_only" || strings.HasPrefix(name, "route_") {
			return nil, fmt.Errorf("redis URL: want no %s: purges are received from masters alone", name)
		}
	}
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return nil, fmt.Errorf("redis URL: want redis://, rediss:// or unix://, got the scheme %q", u.Scheme)
	case query.Has("master_name"):
		kind = " (Sentinel)"
		var o *redis.FailoverOptions
		if o, err = redis.ParseFailoverURL(raw); err == nil {
			c.seeds, c.master = o.SentinelAddrs, o.MasterName
			c.server = &redis.Options{Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig}
			c.sentinel = &redis.Options{Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig}
		}
	case query.Has("addr"):
		kind = " (Cluster)"
		if db := strings.Trim(u.Path, "/"); db != "" && db != "0" {
			return nil, fmt.Errorf("redis URL (Cluster): want no database number, got %q: a Cluster has database 0 alone", db)
		}
		c.cluster = true
		var o *redis.ClusterOptions
		if o, err = redis.ParseClusterURL(raw); err == nil {
			c.seeds = o.Addrs
			c.server = &redis.Options{Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig}
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

// A client is one of go-redis's that leaves no connection behind: its pool forgets one that is dialled
// while it is closed.
type client struct {
	*redis.Client
	cancel context.CancelFunc
}

// Close closes the client with all connections: a call under way fails.
func (c *client) Close() error {
	c.cancel()
	return c.Client.Close()
}

// find is the address of the server of a key, which Sentinels and nodes of a Cluster are asked for each
// time, one after the other.
func (c *connector) find(ctx context.Context, key string) (addr string, err error) {
	for _, addr = range c.seeds {
		if c.cluster || c.master != "" {
			addr, err = c.ask(ctx, addr, key)
		}
		if err == nil {
			return addr, nil
		}
	}
	return "", err
}

// ask asks one of them.
func (c *connector) ask(ctx context.Context, seed, key string) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	of := c.server
	if c.master != "" {
		of = c.sentinel
	}
	client := c.connect(of, seed, pollBulk)
	defer func() { _ = client.Close() }()
	err = reply.Recover(func() error {
		if c.cluster { // a node that has not the key names the one that does
			err := client.HStrLen(ctx, key, "body").Err()
			if moved, ok := redis.IsMovedError(err); ok {
				addr = moved
				if host, _, _ := net.SplitHostPort(seed); strings.HasPrefix(moved, ":") { // it does not know its own
					addr = host + moved
				}
				return nil
			}
			if addr = seed; Replied(err) {
				return nil
			}
			return err
		}
		pair, err := client.Do(ctx, "sentinel", "get-master-addr-by-name", c.master).StringSlice()
		if err == nil && len(pair) != 2 {
			err = fmt.Errorf("sentinel %s: want host and port, got %q", seed, pair)
		}
		if err == nil {
			addr = net.JoinHostPort(pair[0], pair[1])
		}
		return err
	})
	return addr, err
}

// connect makes a client that dials when it is first used, and to which nothing comes that is longer than
// bulk. A call times out with its context, to the instant: a server that sends for ever is no better than
// a silent one.
func (c *connector) connect(of *redis.Options, addr string, bulk int) *client {
	o := *of
	o.Network, o.Addr = cmp.Or(o.Network, "tcp"), addr
	o.Protocol, o.PipelinePoolSize, o.PoolSize = 2, -1, 8
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = -1, -1, c.patience
	o.DialTimeout = max(c.patience, time.Second) // for the round trips of TLS, and a lost packet's first repetition
	o.ContextTimeoutEnabled, o.DisableIdentity = true, true
	o.ConnMaxIdleTime = 10 * time.Second // less than middleboxes remember
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	network, config := o.Network, o.TLSConfig.Clone()
	o.TLSConfig = nil // the dialer below does it
	dialer := net.Dialer{Timeout: o.DialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}}
	if config != nil {
		config.ServerName = "" // the one that is dialled, not that of the URL
	}
	open, cancel := context.WithCancel(context.Background())
	o.Dialer = func(ctx context.Context, _, addr string) (cn net.Conn, err error) {
		// Lookups of one name by one resolver share a query, which may be lost: each dial has its own.
		d := dialer
		d.Resolver = &net.Resolver{PreferGo: net.DefaultResolver.PreferGo, Dial: net.DefaultResolver.Dial}
		if config == nil {
			cn, err = d.DialContext(ctx, network, addr)
		} else {
			cn, err = (&tls.Dialer{NetDialer: &d, Config: config}).DialContext(ctx, network, addr)
		}
		if err != nil {
			return nil, err
		}
		return reply.Bound(open, cn, bulk), nil
	}
	return &client{redis.NewClient(&o), cancel}
}
