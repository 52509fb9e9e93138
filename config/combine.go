package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"vitrine/config/source"
	"vitrine/upstream/shape"
)

// combine finds values that are right alone and not together. One that is wrong alone is reported
// already.
func (l *loader) combine() {
	for key, other := range map[string]string{"tls.cert_file": "tls.key_file", "tls.key_file": "tls.cert_file", "hook.secret": "admin.listen"} {
		s, _ := Lookup(key)
		needed, _ := Lookup(other)
		if s.text(l.Config) != "" && needed.text(l.Config) == "" && !l.wrong(other) && !l.wrong(key) {
			l.add(mistake(key, l.places[key], "want %s (%s) as well, got none", other, needed.Env))
		}
	}
	if !l.wrong("listen") && !l.wrong("admin.listen") && !l.wrong("redis.url") {
		l.collisions()
	}
	if !l.wrong("redis.url") && !l.wrong("redis.prefix") {
		l.scattered()
	}
	l.lists()
	l.endpoints()
}

// collisions finds addresses that exclude each other.
func (l *loader) collisions() {
	type listener struct{ key, address string }
	listeners := []listener{{"listen", l.Listen}, {"admin.listen", l.Admin.Listen}}
	if address, ok := strings.CutPrefix(l.Redis.URL.Reveal(), "embedded:"); ok {
		port := address[strings.LastIndexByte(address, ':')+1:]
		listeners = append(listeners, listener{"redis.url", net.JoinHostPort("127.0.0.1", port)})
	}
	for i, a := range listeners {
		for _, b := range listeners[:i] {
			if overlap(a.address, b.address) {
				l.add(mistake(a.key, l.places[a.key], "want another address, got %q, which is used by %s (%s)", a.address, l.places[b.key].name, l.places[b.key].String()))
			}
		}
	}
}

// overlap reports whether two addresses cannot be listened on by one process.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && portA == portB && portA != "0" && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// scattered finds a prefix that puts the keys of a resource into different slots of a Cluster: a slot
// is that of the text in the first braces of a key, or, if they enclose nothing, of the whole key.
func (l *loader) scattered() {
	u, err := url.Parse(l.Redis.URL.Reveal())
	before, rest, _ := strings.Cut(l.Redis.Prefix, "{")
	if tag, _, closed := strings.Cut(rest, "}"); err != nil || !u.Query().Has("addr") || u.Query().Has("master_name") ||
		closed && tag != "" || before == l.Redis.Prefix && !strings.Contains(before, "}") {
		return
	}
	l.add(mistake("redis.prefix", l.places["redis.prefix"],
		"want no braces, or first a whole hash tag such as {vitrine}:, since redis.url is that of a Cluster; got %q", l.Redis.Prefix))
}

// lists finds a resource without parts, and a catalogue of several parts that lacks one of its lists,
// which would be empty. Where something else is wrong, they may be what that should have been.
func (l *loader) lists() {
	if slices.ContainsFunc(l.errs, func(err *Error) bool { return err.Key == "" || strings.HasPrefix(err.Key, "upstream.") }) {
		return
	}
	for _, r := range shape.Resources() {
		of, key := l.Upstream.Resources.Of(string(r)), "upstream.resources."+string(r)+".parts"
		missing := slices.DeleteFunc(r.Lists(), func(name string) bool {
			return slices.ContainsFunc(of.Parts, func(p source.Part) bool { return p.Name == name || p.Name == "" })
		})
		switch {
		case of.Empty:
		case len(of.Parts) == 0:
			l.add(l.RefuseBelow(key, 0, errors.New("want at least one, or empty: true beside it, since the preset has none")))
		case of.Map == "" && len(missing) > 0:
			var names []string
			for _, p := range of.Parts {
				names = append(names, p.Name)
			}
			l.add(mistake(key, l.places[key], "want a part for each of %s, or a map that makes them; got %s, and none for %s", r.Lists(), names, missing))
		}
	}
}
