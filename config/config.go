// Package config turns flags, environment, a YAML file and defaults into one immutable [Config].
//
// [Load] goes through these steps:
//
//  1. one table ([Settings]) has every setting's key, names, default and allowed values; nothing
//     else in the program does;
//  2. the layers are read, defaults first, then the file, the environment and the flags, and each
//     value keeps its origin ([Config.Origin]);
//  3. a secret named by a file (…_FILE) is read from it;
//  4. every value is parsed and checked, then combinations of values;
//  5. every mistake is reported, not only the first, with the setting, its origin, what was found
//     and what is allowed.
//
// Secrets appear nowhere: not in errors, not in logs, not in [Config.YAML].
package config

import (
	"strconv"
	"time"
)

// Config is the configuration of the program. It is a value that nothing changes after [Load].
type Config struct {
	// Listen is the public address: host:port, where port 0 takes any free one, or unix:path.
	Listen string
	// Admin is the operator's address.
	Admin Admin
	// TLS is for the public address.
	TLS TLS
	// Hook is the webhook of the CMS.
	Hook Hook
	// Upstream is the source of content.
	Upstream Upstream
	// Redis is the shared store.
	Redis Redis
	// TTL is how long each document is fresh.
	TTL TTL
	// StaleWhileRevalidate is how long past its freshness a document is served while it is
	// refreshed. Zero: not at all.
	StaleWhileRevalidate time.Duration
	// StaleIfError is how long past its freshness a document is served when the CMS fails. Zero:
	// not at all.
	StaleIfError time.Duration
	// HTTP is the caching policy announced to browsers and CDNs. LastGood is a folder for the last
	// good documents. Empty: none.
	LastGood string
	HTTP     HTTP
	// CORS names the origins whose pages can read responses.
	CORS CORS
	// Proxies names the proxies trusted about a client's address.
	Proxies Proxies
	// Limits bound requests and connections.
	Limits Limits
	// Log is the program's own log.
	Log Log
	// Shutdown is how the program stops.
	Shutdown Shutdown

	origins map[string]origin // by key
}

// Admin is the operator's address.
type Admin struct {
	// Listen is host:port. Empty: the operator's address is off.
	Listen string
	// Token is required by everything there but the health checks. Empty: none, which is allowed on
	// loopback only.
	Token Secret
	// TokenFile is the file that Token was read from, if any.
	TokenFile string
	// Hosts are further Host names allowed there. The slice is shared; do not modify it.
	Hosts []string
	// Pprof is on or off: profiles at /debug/pprof/.
	Pprof string
}

// Hook is the webhook at the operator's address.
type Hook struct {
	// Secret authenticates deliveries. Empty: there is no webhook.
	Secret Secret
	// SecretFile is the file that Secret was read from, if any.
	SecretFile string
	// SignatureHeader is the header with the HMAC of a delivery.
	SignatureHeader string
	// Match has a jq program for each resource.
	Match HookMatch
}

// HookMatch selects by the body of a delivery the resources it concerns.
type HookMatch struct {
	Catalogue, Rules, Banners string
}

// TLS names the files with the certificate and its key. Both are empty without TLS.
type TLS struct {
	CertFile, KeyFile string
}

// Upstream is the source of content.
type Upstream struct {
	// URL is sample:, file:DIR, or http(s)://host[:port][/base].
	URL string
	// Preset names the kind of CMS.
	Preset string
	// Authorization is sent upstream as the header of that name. Empty: none.
	Authorization Secret
	// AuthorizationFile is the file that Authorization was read from, if any.
	AuthorizationFile string
	// Timeout bounds one fetch of a resource, including its retries.
	Timeout time.Duration
	// Retries is how often a failed request is repeated. Zero: never.
	Retries int
	// MaxBytes bounds the body of one resource, decompressed.
	MaxBytes Size
	// Shared is what all parts have in common.
	Shared Parts
	// Resources are the settings of each resource.
	Resources Resources
}

// Resources are the settings that can differ by resource.
type Resources struct {
	Catalogue, Rules, Banners Resource
}

// Resource is how one resource is fetched from the CMS.
type Resource struct {
	// Path is relative to [Upstream.URL]. Empty: the preset's path, or the file in a folder.
	Path string
	// Parts are what it is made from. None: the preset's.
	Parts Parts
	// Empty is true where the CMS does not have it.
	Empty string
	// Map is a jq program that makes the document from all parts. Empty: none.
	Map string
}

// Redis is the shared store.
type Redis struct {
	// URL is embedded:[HOST:PORT], redis://, rediss:// or unix://, with the Sentinel and Cluster
	// forms of go-redis. It may contain a password.
	URL URL
	// URLFile is the file that URL was read from, if any.
	URLFile string
	// Prefix is the prefix of every key.
	Prefix string
	// PurgeBound is how soon after a purge no replica serves anything older.
	PurgeBound time.Duration
}

// TTL is how long each resource is fresh.
type TTL struct {
	// Default is the TTL of resources without one of their own.
	Default time.Duration
	// Catalogue, Rules and Banners are filled from Default if unset.
	Catalogue, Rules, Banners time.Duration
}

// Of returns the TTL of the resource of that name.
func (t TTL) Of(resource string) time.Duration {
	return map[string]time.Duration{"catalogue": t.Catalogue, "rules": t.Rules, "banners": t.Banners}[resource]
}

// HTTP is the caching policy announced to browsers and CDNs.
type HTTP struct {
	// MaxAge is how long a browser or CDN can keep a response without revalidating. Zero: not at
	// all.
	MaxAge time.Duration
	// CDNMaxAge is the same for CDNs that support CDN-Cache-Control. Filled from MaxAge if unset.
	CDNMaxAge time.Duration
	// CDNStaleWhileRevalidate is how long these can serve a response while revalidating it. Filled
	// from [Config.StaleWhileRevalidate] if unset.
	CDNStaleWhileRevalidate time.Duration
	// HSTS is the max-age of Strict-Transport-Security. Zero: not sent.
	HSTS time.Duration
}

// Proxies are the trusted proxies in front.
type Proxies struct {
	// Trusted are networks, addresses, or "unix". Empty: none. The slice is shared; do not modify
	// it.
	Trusted []string
	// ClientHeader is the header in which they name the client.
	ClientHeader string
}

// Limits bound requests and connections.
type Limits struct {
	// Connections is the maximum number of connections. Zero: 262,144.
	Connections int
	// Target, Header and Body bound the parts of a request.
	Target, Header, Body Size
	// ReadTimeout, WriteTimeout and IdleTimeout bound receiving a request, sending its response,
	// and waiting for the next one.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
}

// CORS is the policy for pages of other origins.
type CORS struct {
	// Origins are exact origins, or the one element "*". Empty: none. The slice is shared; do not
	// modify it.
	Origins []string
}

// Log is the program's own log.
type Log struct {
	// Level is debug, info, warn or error.
	Level string
	// Format is text or json.
	Format string
	// Access is on or off: log each request.
	Access string
}

// Shutdown bounds a graceful stop.
type Shutdown struct {
	// Delay is how long requests are still accepted after /readyz begins to fail, for load
	// balancers that poll it. Zero: the listener closes at once.
	Delay time.Duration
	// Timeout bounds requests in flight after Delay.
	Timeout time.Duration
}

// Size is a number of bytes.
type Size int64

// String writes the size as the settings do: 32MiB, or bytes when uneven.
func (s Size) String() string {
	for _, unit := range []struct {
		name  string
		bytes Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s >= unit.bytes && s%unit.bytes == 0 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
