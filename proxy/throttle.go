package proxy

import (
	"fmt"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// maxClients is how many clients' rates are known at a time; who was not seen for longest is forgotten, and starts
// anew with a whole burst.
const maxClients = 16 << 10

// ipv6Client is how many bits of an IPv6 address tell one client from another: a household has all of a /64.
const ipv6Client = 64

// A throttle bounds the rate of each client's requests.
type throttle struct {
	limit   rate.Limit
	burst   int
	clients *lru.Cache[netip.Addr, *rate.Limiter]
}

// newThrottle makes one for perSecond requests on average and burst at once; nil if perSecond is 0.
func newThrottle(perSecond float64, burst int) (*throttle, error) {
	if perSecond == 0 {
		return nil, nil //nolint:nilnil // no throttle is what was asked for
	}
	clients, err := lru.New[netip.Addr, *rate.Limiter](maxClients)
	if err != nil {
		return nil, fmt.Errorf("rate limit: %w", err)
	}
	if burst == 0 {
		burst = max(1, int(perSecond))
	}
	return &throttle{limit: rate.Limit(perSecond), burst: burst, clients: clients}, nil
}

// admit takes a request of a client, or says in a [throttledError] when there will be room for one. Clients without
// an address, those of a Unix socket that is not trusted to name them, are one client.
func (t *throttle) admit(client netip.Addr, now time.Time) error {
	if client.Is6() {
		network, err := client.Prefix(ipv6Client)
		if err != nil {
			return fmt.Errorf("client %v: %w", client, err)
		}
		client = network.Addr()
	}
	l, ok := t.clients.Get(client)
	if !ok {
		l = rate.NewLimiter(t.limit, t.burst)
		if other, raced, _ := t.clients.PeekOrAdd(client, l); raced {
			l = other
		}
	}
	if l.AllowN(now, 1) {
		return nil
	}
	missing := max(0, 1-l.TokensAt(now))
	return throttledError{after: time.Duration(missing / float64(t.limit) * float64(time.Second))}
}

// A throttledError is an errThrottled that knows when to come back.
type throttledError struct{ after time.Duration }

func (e throttledError) Error() string {
	return fmt.Sprintf("%v: next request in %v", errThrottled, e.after)
}

func (throttledError) Is(target error) bool { return target == errThrottled }
