package cache

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A connector is a parsed URL: one server, the master that Sentinels name, or a Cluster.
type connector struct {
	single   *redis.Options
	failover *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

// parseURL reads the URL in go-redis's own forms.
func parseURL(raw string, timeout time.Duration) (*connector, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("redis URL: want redis://, rediss:// or unix://, got one that does not parse as a URL")
	}
	query := u.Query()
	switch {
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		return nil, fmt.Errorf("redis URL: want redis://, rediss:// or unix://, got the scheme %q", u.Scheme)
	case query.Has("master_name"):
		o, err := redis.ParseFailoverURL(raw)
		if err != nil {
			return nil, fmt.Errorf("redis URL (Sentinel): %w", redacted(err, u))
		}
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout = patience(timeout)
		o.MaxRetries, o.DialerRetries = -1, 1 // the store's prober is who tries again
		o.ContextTimeoutEnabled = true
		return &connector{failover: o}, nil
	case query.Has("addr"):
		o, err := redis.ParseClusterURL(raw)
		if err != nil {
			return nil, fmt.Errorf("redis URL (Cluster): %w", redacted(err, u))
		}
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout = patience(timeout)
		o.MaxRetries, o.DialerRetries = -1, 1
		o.ContextTimeoutEnabled = true
		o.MaintNotificationsConfig = quiet()
		return &connector{cluster: o}, nil
	}
	o, err := redis.ParseURL(raw)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", redacted(err, u))
	}
	o.ReadTimeout, o.WriteTimeout, o.DialTimeout = patience(timeout)
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = quiet()
	return &connector{single: o}, nil
}

// patience is how long a connection may take to read, to write and to be made, where one call may take timeout.
func patience(timeout time.Duration) (read, write, dial time.Duration) {
	return writeTimes * timeout, writeTimes * timeout, dialTimeout(timeout)
}

// quiet asks the server not to announce its maintenance: the watchers find out by themselves.
func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// writeTimes is how much longer than a read the writing of a whole document may take.
const writeTimes = 10

// dialTimeout gives a connection over TLS time for its round trips, and a lost packet its first repetition.
func dialTimeout(timeout time.Duration) time.Duration { return max(timeout, time.Second) }

// redacted takes the URL's own text out of an error, since it may hold a password.
func redacted(err error, u *url.URL) error {
	text := err.Error()
	if p, ok := u.User.Password(); ok && p != "" {
		text = strings.ReplaceAll(text, p, "xxxxx")
	}
	return fmt.Errorf("%s", text)
}

func (c *connector) client() redis.UniversalClient {
	switch {
	case c.failover != nil:
		return redis.NewFailoverClient(c.failover)
	case c.cluster != nil:
		return redis.NewClusterClient(c.cluster)
	}
	return redis.NewClient(c.single)
}

// addr is where a person would point redis-cli.
func (c *connector) addr() string {
	switch {
	case c.failover != nil:
		return strings.Join(c.failover.SentinelAddrs, ",")
	case c.cluster != nil:
		return strings.Join(c.cluster.Addrs, ",")
	}
	return c.single.Addr
}
