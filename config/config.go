// Package config turns flags, environment, a YAML file and defaults into one
// immutable [Config].
//
// [Load] goes once, in this order:
//
//  1. one table ([Settings]) says every setting's key, names, default and
//     what it allows; nothing else in the program does;
//  2. the layers are read, defaults first, then the file, the environment and
//     the flags, and each value keeps where it came from ([Config.Origin]);
//  3. a secret named by a file (…_FILE) is read from it;
//  4. every value is parsed and checked, then those that must fit each other;
//  5. every mistake found on the way is reported, not only the first, each
//     naming the setting, its origin, what was found and what is allowed.
//
// Secrets show themselves nowhere: neither in errors nor in logs nor in what
// [Config.YAML] prints.
package config

import (
	"strconv"
	"time"
)

// Config is what the program runs on. It is a value: nothing changes it after
// [Load], and whoever holds a copy may keep it.
type Config struct {
	// Listen is the public address: host:port, where port 0 takes any free
	// one, or unix:path.
	Listen string
	// Admin is the operator's side.
	Admin Admin
	// TLS is for the public address.
	TLS TLS
	// Hook is where a CMS says that content changed.
	Hook Hook
	// Upstream is where content comes from.
	Upstream Upstream
	// Redis is where documents are shared.
	Redis Redis
	// TTL says how long each document is fresh.
	TTL TTL
	// StaleWhileRevalidate is how long past its freshness a document is served
	// while a refresh runs. Zero: not at all.
	StaleWhileRevalidate time.Duration
	// StaleIfError is how long past its freshness a document is served when
	// the CMS fails. Zero: not at all.
	StaleIfError time.Duration
	// HTTP is what browsers and downstream caches are told.
	HTTP HTTP
	// CORS says which origins may read the answers in a browser.
	CORS CORS
	// Proxies says who is believed about a client's address.
	Proxies Proxies
	// Limits bound what clients may ask.
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
	// Token is asked for by everything there but the health checks. Empty: by
	// nothing, which only a loopback address may have.
	Token Secret
	// TokenFile is the file that Token was read from, if any.
	TokenFile string
	// Hosts are further hosts that a request there can name. It is shared and must not be changed.
	Hosts []string
	// Pprof is on or off: whether there are profiles at /debug/pprof/.
	Pprof string
}

// Hook is the webhook at the operator's address.
type Hook struct {
	// Secret is what a delivery shows that it knows. Empty: there is no hook.
	Secret Secret
	// SecretFile is the file that Secret was read from, if any.
	SecretFile string
	// SignatureHeader holds the HMAC of a delivery.
	SignatureHeader string
	// Match has a jq program for each resource.
	Match HookMatch
}

// HookMatch says by the body of a delivery which resources it concerns.
type HookMatch struct {
	Catalogue, Rules, Banners string
}

// TLS names the files with the certificate and its key. Both are empty where
// there is no TLS.
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
	// Timeout bounds one fetch of a resource, its retries included.
	Timeout time.Duration
	// Retries is how often a failed request is repeated. Zero: never.
	Retries int
	// MaxBytes bounds the body of one resource, decompressed.
	MaxBytes Size
	// Resources says where each resource is found.
	Resources Resources
}

// Resources holds what may differ per resource.
type Resources struct {
	Catalogue, Rules, Banners Resource
}

// Resource says how one resource is asked of the CMS.
type Resource struct {
	// Path is relative to [Upstream.URL]. Empty: where the documented
	// interface, a folder or the preset has it.
	Path string
	// Parts are what it is made from. None: what the preset makes it from.
	Parts Parts
	// Map is a jq program that makes the document of all parts. Empty: none.
	Map string
}

// Redis is the shared store.
type Redis struct {
	// URL is embedded:[HOST:PORT], redis://, rediss:// or unix://, with the
	// Sentinel and Cluster forms of go-redis. It may hold a password.
	URL URL
	// URLFile is the file that URL was read from, if any.
	URLFile string
	// Prefix begins the name of every key.
	Prefix string
}

// TTL is how long each resource is fresh.
type TTL struct {
	// Default stands for the resources that have none of their own.
	Default time.Duration
	// Catalogue, Rules and Banners are filled from Default where unset.
	Catalogue, Rules, Banners time.Duration
}

// Of is for how long the resource of that name is fresh.
func (t TTL) Of(resource string) time.Duration {
	return map[string]time.Duration{"catalogue": t.Catalogue, "rules": t.Rules, "banners": t.Banners}[resource]
}

// HTTP is what public answers promise to those who keep them.
type HTTP struct {
	// MaxAge is how much longer a browser or CDN may keep an answer without
	// asking. Zero: it asks each time.
	MaxAge time.Duration
	// CDNMaxAge is the same for CDNs that know CDN-Cache-Control. Filled from
	// MaxAge where unset.
	CDNMaxAge time.Duration
	// CDNStaleWhileRevalidate is how much longer these may give an answer while
	// they ask. Filled from [Config.StaleWhileRevalidate] where unset.
	CDNStaleWhileRevalidate time.Duration
	// HSTS is how long browsers are told to use TLS only. Zero: not told.
	HSTS time.Duration
}

// Proxies are those in front that are believed.
type Proxies struct {
	// Trusted are networks, addresses, or "unix". Empty: nobody. It is shared
	// by all copies of the Config, and not to be written to.
	Trusted []string
	// ClientHeader is the field that they name the client in.
	ClientHeader string
}

// Limits bound what clients may ask. Each has an answer of its own.
type Limits struct {
	// Connections is how many are served at a time. Zero: 262,144.
	Connections int
	// Target, Header and Body bound the parts of a request.
	Target, Header, Body Size
	// ReadTimeout, WriteTimeout and IdleTimeout bound how long a connection
	// waits for a request, for its answer to be taken, and for the next one.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
}

// CORS is the rule for browsers on other origins.
type CORS struct {
	// Origins are exact origins, or the one element "*". Empty: none. It is
	// shared by all copies of the Config, and not to be written to.
	Origins []string
}

// Log is where and how the program reports on itself.
type Log struct {
	// Level is debug, info, warn or error.
	Level string
	// Format is text or json.
	Format string
	// Access is on or off: whether each request is logged.
	Access string
}

// Shutdown bounds a graceful stop.
type Shutdown struct {
	// Delay is how long requests are still accepted after /readyz began to
	// fail, for balancers that poll it. Zero: the listener closes at once.
	Delay time.Duration
	// Timeout is how long requests under way may take to finish after Delay.
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
