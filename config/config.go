// Package config makes one immutable [Config] of flags, environment, a YAML file and defaults.
//
// [Load] goes through these steps:
//
//  1. the tags of Config's fields are the table of [Settings]: each setting's name, default,
//     allowed values and meaning, and nothing else in the program has them;
//  2. the defaults are set, then the preset is decoded, and the file over it by the same code, then
//     the environment and the flags are read; where a value was found is kept for messages;
//  3. a secret named by a file (…_file) is read from it;
//  4. combinations of values are checked;
//  5. every mistake is reported, not only the first, with the setting, its place, what was found and
//     what is allowed.
//
// A secret is a type that does not print: not in errors, not in logs, not in [Config.YAML].
package config

import (
	"reflect"
	"slices"
	"time"

	"vitrine/config/source"
)

// Config is the configuration of the program. It is a value that nothing changes after [Load], nor
// its slices. A field with a tag is a setting, which the documentation lists in this order:
//
//	yaml      its key in the file, from which follow the variable and the flag
//	default   its default, as text
//	inherits  or the key of the setting whose value is the default
//	is        what a text must be, in rules
//	oneof     the only texts allowed
//	range     the bounds of a number, a size or a duration
//	unset     "ok": the empty text is a value, too, although there is a default
//	flag      "ok": it has a flag
//	secret    "ok": values are never shown, as those of a [Secret]
//	doc       its meaning; {} is the resource, and 'code' is quoted like this
//
// The tags of a group are also those of its settings.
type Config struct {
	Listen               string        `flag:"ok" yaml:"listen" default:":8080" is:"public address" doc:"the public address, a port or a unix socket"`
	Admin                Admin         `yaml:"admin"`
	Hook                 Hook          `yaml:"hook"`
	TLS                  TLS           `yaml:"tls"`
	Upstream             Upstream      `yaml:"upstream"`
	Redis                Redis         `yaml:"redis"`
	TTL                  TTL           `yaml:"ttl" range:"10ms..8760h"`
	StaleWhileRevalidate time.Duration `yaml:"stale_while_revalidate" default:"5m" range:"0s..8760h" doc:"how long past its freshness a document is served while it is refreshed"`
	StaleIfError         time.Duration `yaml:"stale_if_error" default:"24h" range:"0s..8760h" doc:"how long past its freshness a document is served if the CMS fails"`
	Refresh              string        `yaml:"refresh" default:"on-request" oneof:"on-request always" doc:"'always': documents are refreshed when 'ttl' is over, and fetched at once after a hard purge, without requests, by one fetch for all replicas"`
	LastGood             string        `yaml:"last_good" is:"folder" doc:"folder of this process's last good documents, for a start with neither Redis nor CMS; each process needs its own; unset: they are not kept"`
	Guard                Guard         `yaml:"guard"`
	HTTP                 HTTP          `yaml:"http"`
	Notify               Targets       `yaml:"notify" doc:"endpoints notified of changes and purges; see [notifications](notify.md)"`
	CORS                 CORS          `yaml:"cors"`
	Proxies              Proxies       `yaml:"proxies"`
	Limits               Limits        `yaml:"limits"`
	Log                  Log           `yaml:"log"`
	Shutdown             Shutdown      `yaml:"shutdown"`

	places  map[string]place  // by key, also of what is below a tree
	made    Secret            // the token of the admin address that was made for this configuration
	written map[string]string // values in which references were replaced, as they were written, by key
}

type (
	// Secret is a text that does not print.
	Secret = source.Secret
	// URL is an address that does not print its secrets.
	URL = source.URL
)

// NewSecret and NewURL make them.
var (
	NewSecret = source.NewSecret
	NewURL    = source.NewURL
)

// HasCache reports whether an endpoint keeps responses until it is notified.
func (c Config) HasCache() bool {
	return slices.ContainsFunc(c.Notify, func(t source.Target) bool { return t.Cache })
}

// TagHeaders are the header fields in which targets read the tags of responses.
func (c Config) TagHeaders() (names []string) {
	for _, t := range c.Notify {
		if t.Tags != "" && !slices.Contains(names, t.Tags) {
			names = append(names, t.Tags)
		}
	}
	return names
}

// Admin is the admin address.
type Admin struct {
	Listen    string   `yaml:"listen" default:"127.0.0.1:9090" unset:"ok" is:"address" doc:"the admin address; empty switches it off"`
	Token     Secret   `yaml:"token" is:"token" doc:"token for the admin address (bearer token or basic-auth password); /livez and /readyz need none; made once if the address is not loopback"`
	TokenFile string   `yaml:"token_file" is:"file" doc:"a file that holds the token instead; made, with a token, if it is not there"`
	Hosts     []string `yaml:"hosts" is:"hosts" doc:"Host names allowed at the admin address besides loopback and its own address, separated by commas (421 otherwise)"`
	Pprof     string   `yaml:"pprof" default:"off" oneof:"off on" doc:"serve Go's profiles at /debug/pprof/ of the admin address"`
}

// Hook is the webhook of the CMS, at the admin address.
type Hook struct {
	Secret          Secret             `yaml:"secret" is:"token" doc:"shared secret for /hooks/content, as HMAC-SHA256 key or bearer token; unset disables the webhook"`
	SecretFile      string             `yaml:"secret_file" is:"file" doc:"a file that holds the secret instead"`
	SignatureHeader string             `yaml:"signature_header" default:"X-Vitrine-Signature" is:"header name" doc:"header with the HMAC of the body, in hexadecimal (with or without 'sha256=') or base64"`
	Match           ByResource[string] `yaml:"match" default:"true" is:"predicate" doc:"a jq program: a delivery purges '{}' softly if it yields anything but false or null"`
}

// TLS is for the public address.
type TLS struct {
	CertFile string `yaml:"cert_file" is:"PEM file" doc:"certificate chain for the public address, in PEM; reloaded when it changes; unset: no TLS"`
	KeyFile  string `yaml:"key_file" is:"PEM file" doc:"key of the certificate, in PEM"`
}

// Upstream is the source of content.
type Upstream struct {
	URL               URL           `flag:"ok" yaml:"url" default:"sample:" is:"upstream" doc:"the base URL of the CMS; 'sample:' is the bundled content, 'file:DIR' a folder with catalogue.json, rules.json and banners.json"`
	Preset            string        `flag:"ok" yaml:"preset" default:"drf" is:"preset" doc:"kind of CMS, as 'vitrine presets' lists them ('drf' is Django REST Framework, 'custom' has no defaults), or a file with a preset, relative to the configuration file"`
	Authorization     Secret        `yaml:"authorization" is:"header" doc:"the Authorization header sent to the CMS"`
	AuthorizationFile string        `yaml:"authorization_file" is:"file" doc:"a file that holds the header instead, such as a container's secret"`
	Timeout           time.Duration `yaml:"timeout" default:"10s" range:"1ms..10m" doc:"time limit for one fetch of a resource, its retries and pages included"`
	Retries           int           `yaml:"retries" default:"2" range:"0..10" doc:"how often a failed request is repeated, within the timeout"`
	MaxBytes          Size          `yaml:"max_bytes" default:"32MiB" range:"1..1GiB" doc:"maximum size of a resource, decompressed"`
	Mapping           `yaml:",inline"`
}

// Mapping is how documents are made of what the source has. A preset has these keys.
type Mapping struct {
	Shared    source.Shared               `yaml:"shared" doc:"headers, query parameters and jq definitions of all parts; see [CMS guides](cms/README.md#shared)"`
	Resources ByResource[source.Resource] `yaml:"resources" doc:"how '{}' is fetched and mapped, over the preset; see [CMS guides](cms/README.md)"`
}

// Redis is the store that replicas share.
type Redis struct {
	URL        URL           `flag:"ok" yaml:"url" default:"embedded:" is:"redis" doc:"the store that replicas share; 'embedded:' is one inside this process, on 127.0.0.1:6380 or the given port; Sentinel and Cluster in go-redis's URL forms"`
	URLFile    string        `yaml:"url_file" is:"file" doc:"a file that holds the URL instead, for one with a password"`
	Prefix     string        `yaml:"prefix" default:"vitrine:" is:"prefix" doc:"prefix of every key; other keys are never touched"`
	PurgeBound time.Duration `yaml:"purge_bound" default:"50ms" range:"10ms..10s" doc:"how soon after a purge no replica serves older content; a distant Redis needs more: start-up, 'check' and the status say how much"`
}

// TTL is how long each resource is fresh.
type TTL struct {
	Default                   time.Duration `yaml:"default" default:"60s" doc:"minimum time a document is fresh; each gets up to a tenth more, in which a request refreshes it. An Age that the CMS sends shortens it, to a tenth and a second at least"`
	ByResource[time.Duration] `yaml:",inline" inherits:"ttl.default" doc:"how long '{}' is fresh"`
}

// Guard holds back documents that lose too much of the one held.
type Guard struct {
	Shrink Share         `yaml:"shrink" default:"50%" range:"0%..100%" doc:"a document in which a list of ten items or more loses a larger share is [held back](failures.md#held-back), as is one with an emptied list; '0' holds nothing back"`
	Hold   time.Duration `yaml:"hold" default:"15m" range:"0s..8760h" doc:"how long it is held back, unless an operator accepts it; an emptied catalogue or rules list waits for the operator"`
}

// Targets are the endpoints that are notified of changes and purges.
type Targets []source.Target

// HTTP is the caching policy announced to browsers and CDNs.
type HTTP struct {
	MaxAge                  time.Duration `yaml:"max_age" default:"0s" range:"0s..8760h" doc:"how long a browser or CDN can keep a response without revalidating"`
	CDNMaxAge               time.Duration `yaml:"cdn_max_age" inherits:"http.max_age" range:"0s..8760h" doc:"the same for shared caches, as s-maxage and in CDN-Cache-Control; it can exceed a document's remaining freshness while 'notify' has a cache among its endpoints"`
	CDNStaleWhileRevalidate time.Duration `yaml:"cdn_stale_while_revalidate" inherits:"stale_while_revalidate" range:"0s..8760h" doc:"how long such a CDN can serve a response while revalidating it, within the document's freshness; 0s: it revalidates first"`
	HSTS                    time.Duration `yaml:"hsts" default:"0s" range:"0s..26280h" doc:"max-age of Strict-Transport-Security, sent on TLS connections; 0s: not sent"`
}

// CORS is the policy for pages of other origins.
type CORS struct {
	Origins []string `yaml:"origins" default:"*" unset:"ok" is:"origins" doc:"origins whose pages can read responses, separated by commas; empty allows none"`
}

// Proxies are the trusted proxies in front.
type Proxies struct {
	Trusted      []string `yaml:"trusted" is:"proxies" doc:"proxies in front, separated by commas; they alone name their client and the trace of a request"`
	ClientHeader string   `yaml:"client_header" default:"X-Forwarded-For" is:"header name" doc:"header in which those proxies name the client, for the access log: its first address"`
}

// Limits bound requests and connections.
type Limits struct {
	Connections  int           `yaml:"connections" default:"0" range:"0..10000000" doc:"maximum number of connections (503 beyond); 0: the limit on descriptors less 512, or half of it if that is more"`
	Target       Size          `yaml:"target" default:"4KiB" range:"256..1MiB" doc:"maximum length of path and query (414 beyond)"`
	Header       Size          `yaml:"header" default:"12KiB" range:"1KiB..1MiB" doc:"maximum size of a request's header (431 beyond)"`
	Body         Size          `yaml:"body" default:"64KiB" range:"1..16MiB" doc:"maximum size of a request after its header (413 beyond); bodies are ignored"`
	ReadTimeout  time.Duration `yaml:"read_timeout" default:"10s" range:"10ms..1h" doc:"time limit for receiving a request (408 beyond)"`
	WriteTimeout time.Duration `yaml:"write_timeout" default:"1m" range:"10ms..1h" doc:"time limit for sending a response"`
	IdleTimeout  time.Duration `yaml:"idle_timeout" default:"2m" range:"10ms..24h" doc:"how long a connection stays open without a request; longer than that of a load balancer in front"`
}

// Log is the program's own log.
type Log struct {
	Access string `yaml:"access" default:"off" oneof:"off on" doc:"log a line for each request, at any 'log.level'"`
	Level  string `flag:"ok" yaml:"level" default:"info" oneof:"debug info warn error" doc:"minimum log level"`
	Format string `yaml:"format" default:"text" oneof:"text json" doc:"'text' for people, with a summary and commands to try at the start; 'json' for machines"`
}

// Shutdown is how the program stops.
type Shutdown struct {
	Delay   time.Duration `yaml:"delay" default:"0s" range:"0s..5m" doc:"how long requests are accepted after /readyz begins to fail, for a load balancer to notice"`
	Timeout time.Duration `yaml:"timeout" default:"8s" range:"1ms..10m" doc:"time limit for requests in flight after that; Docker kills 10s after SIGTERM, delay included"`
}

// ByResource has a value for each resource.
type ByResource[T any] struct {
	Catalogue T `yaml:"catalogue"`
	Rules     T `yaml:"rules"`
	Banners   T `yaml:"banners"`
}

// Of returns the value for the resource of that name.
func (b ByResource[T]) Of(resource string) (v T) {
	fields := reflect.ValueOf(b)
	for i := range fields.NumField() {
		if fields.Type().Field(i).Tag.Get("yaml") == resource {
			v, _ = fields.Field(i).Interface().(T)
		}
	}
	return v
}
