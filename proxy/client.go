package proxy

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// proxies are those whose word about the clients behind them is taken.
type proxies struct {
	header   string // the field that they say it in; each appends to it or replaces it
	networks []netip.Prefix
	unix     bool // whoever comes over a Unix socket is one
}

// unixPeers is how a list of proxies names whoever comes over a Unix socket.
const unixPeers = "unix"

// newProxies reads a list of networks, addresses, and the word unix.
func newProxies(header string, trusted []string) (proxies, error) {
	p := proxies{header: header}
	for _, t := range trusted {
		if t == unixPeers {
			p.unix = true
			continue
		}
		network, err := netip.ParsePrefix(t)
		if addr, aerr := netip.ParseAddr(t); aerr == nil && addr.Zone() == "" {
			network, err = addr.Prefix(addr.BitLen())
		}
		if err != nil || network != network.Masked() {
			return p, fmt.Errorf("trusted proxies: want a network such as 10.0.0.0/8, an address or %s, got %q", unixPeers, t)
		}
		p.networks = append(p.networks, network)
	}
	return p, nil
}

// trust reports whether a peer is a trusted proxy; an invalid address is that of a Unix socket.
func (p *proxies) trust(peer netip.Addr) bool {
	if !peer.IsValid() {
		return p.unix
	}
	for _, n := range p.networks {
		if n.Contains(peer) {
			return true
		}
	}
	return false
}

// client is the address that a request comes from: that of the connection, or, where that is a trusted proxy's, the
// last address in its field that is not another trusted proxy's. What stands before that one anybody may have written.
func (p *proxies) client(c *conn, h *fasthttp.RequestHeader) netip.Addr {
	if c == nil {
		return netip.Addr{}
	}
	if !c.trusted {
		return c.peer
	}
	lines := h.PeekAll(p.header)
	client := c.peer
	for i := len(lines) - 1; i >= 0; i-- {
		for rest := lines[i]; len(rest) > 0; {
			var last []byte
			if comma := bytes.LastIndexByte(rest, ','); comma >= 0 {
				rest, last = rest[:comma], rest[comma+1:]
			} else {
				rest, last = nil, rest
			}
			addr, ok := parseClient(last)
			if !ok {
				return client
			}
			if client = addr; !p.trust(addr) {
				return client
			}
		}
	}
	return client
}

// parseClient reads an element of a list of addresses, which may have a port.
func parseClient(element []byte) (netip.Addr, bool) {
	s := string(trimBlanks(element))
	if len(s) > len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535") {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		withPort, perr := netip.ParseAddrPort(s)
		if perr != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone(""), true
}
