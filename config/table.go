package config

import (
	"slices"
	"strings"
	"time"
)

// longest is the upper bound of how long a document is kept: a year.
const longest = int64(365 * 24 * time.Hour)

// shortest is the lower bound of what should not be zero.
const shortest = int64(10 * time.Millisecond)

// settings is the table. A setting exists when it has a row here.
var settings = named([]Setting{
	{Key: "listen", Default: ":8080", check: checkPublicAddress, allowed: aPublicAddress,
		field: func(c *Config) any { return &c.Listen },
		Doc:   "the public address, a port or a unix socket"},
	{Key: "admin.listen", Default: "127.0.0.1:9090", optional: true, check: checkAddress,
		allowed: anAddress, field: func(c *Config) any { return &c.Admin.Listen },
		Doc: "the operator's address; empty switches it off"},
	{Key: "admin.token", optional: true, check: checkToken,
		allowed: "8 to 512 printable ASCII characters without spaces",
		field:   func(c *Config) any { return &c.Admin.Token },
		Doc:     "token for the operator's address (bearer token or basic-auth password); /livez and /readyz need none; required unless the address is loopback"},
	{Key: "admin.token_file", contents: "admin.token", optional: true, allowed: aSecretFile,
		field: func(c *Config) any { return &c.Admin.TokenFile },
		Doc:   "a file that holds the token instead"},
	{Key: "admin.hosts", optional: true, check: checkHosts,
		allowed: "a list of host names and addresses such as vitrine,10.0.0.7",
		field:   func(c *Config) any { return &c.Admin.Hosts },
		Doc:     "other Host names allowed at the operator's address besides loopback and its own address, separated by commas (421 otherwise)"},
	{Key: "admin.pprof", Default: "off", words: []string{"off", "on"},
		field: func(c *Config) any { return &c.Admin.Pprof },
		Doc:   "serve Go's profiles at /debug/pprof/ of the operator's address"},
	{Key: "hook.secret", optional: true, check: checkToken,
		allowed: "8 to 512 printable ASCII characters without spaces",
		field:   func(c *Config) any { return &c.Hook.Secret },
		Doc:     "shared secret for /hooks/content, as HMAC-SHA256 key or bearer token; unset disables the webhook"},
	{Key: "hook.secret_file", contents: "hook.secret", optional: true, allowed: aSecretFile,
		field: func(c *Config) any { return &c.Hook.SecretFile },
		Doc:   "a file that holds the secret instead"},
	{Key: "hook.signature_header", Default: "X-Vitrine-Signature", check: checkClientHeader,
		allowed: "a header name", field: func(c *Config) any { return &c.Hook.SignatureHeader },
		Doc: "header with the HMAC of the body, in hexadecimal (with or without `sha256=`) or base64"},
	{Key: "hook.match.catalogue", Default: "true", allowed: "a jq program",
		field: func(c *Config) any { return &c.Hook.Match.Catalogue },
		Doc:   "a jq program run on the body of a delivery: the catalogue is purged softly if it yields anything but false or null"},
	{Key: "hook.match.rules", Default: "true", allowed: "a jq program",
		field: func(c *Config) any { return &c.Hook.Match.Rules },
		Doc:   "the same for the rules"},
	{Key: "hook.match.banners", Default: "true", allowed: "a jq program",
		field: func(c *Config) any { return &c.Hook.Match.Banners },
		Doc:   "the same for the banners"},
	{Key: "tls.cert_file", optional: true, allowed: aPEMFile,
		field: func(c *Config) any { return &c.TLS.CertFile },
		Doc:   "certificate chain for the public address, in PEM; reloaded when it changes; unset: no TLS"},
	{Key: "tls.key_file", optional: true, allowed: aPEMFile,
		field: func(c *Config) any { return &c.TLS.KeyFile },
		Doc:   "key of the certificate, in PEM"},
	{Key: "upstream.url", Default: "sample:", check: checkUpstream,
		allowed: "sample:, file:DIR, or http(s)://HOST[:PORT][/BASE]",
		field:   func(c *Config) any { return &c.Upstream.URL },
		Doc:     "where content comes from: `sample:` the bundled content, `file:DIR` a folder with catalogue.json, rules.json and banners.json, or the base URL of the CMS"},
	{Key: "upstream.preset", Default: "drf", words: []string{"drf", "strapi4", "strapi5", "directus", "wordpress", "custom"},
		field: func(c *Config) any { return &c.Upstream.Preset },
		Doc:   "kind of CMS: `drf` is Django REST Framework; `custom` has no defaults: everything is set in the file"},
	{Key: "upstream.authorization", optional: true, check: checkHeader,
		allowed: "the value of an Authorization header in printable ASCII",
		field:   func(c *Config) any { return &c.Upstream.Authorization },
		Doc:     "the Authorization header sent to the CMS"},
	{Key: "upstream.authorization_file", contents: "upstream.authorization", optional: true,
		allowed: aSecretFile, field: func(c *Config) any { return &c.Upstream.AuthorizationFile },
		Doc: "a file that holds the header instead, such as a container's secret"},
	{Key: "upstream.timeout", Default: "10s", min: int64(time.Millisecond), max: int64(10 * time.Minute),
		field: func(c *Config) any { return &c.Upstream.Timeout },
		Doc:   "time limit for one fetch of a resource, its retries and pages included"},
	{Key: "upstream.retries", Default: "2", min: 0, max: 10,
		field: func(c *Config) any { return &c.Upstream.Retries },
		Doc:   "how often a failed request is repeated, within the timeout"},
	{Key: "upstream.max_bytes", Default: "32MiB", min: 1, max: 1 << 30,
		field: func(c *Config) any { return &c.Upstream.MaxBytes },
		Doc:   "maximum size of a resource, decompressed"},
	{Key: "upstream.shared", optional: true, allowed: "a mapping",
		field: func(c *Config) any { return &c.Upstream.Shared },
		Doc:   "what all parts have in common: headers, query parameters, login, jq definitions; see [CMS guides](cms/README.md#shared)"},
	{Key: "upstream.resources.catalogue.empty", optional: true, words: []string{"false", "true"},
		field: func(c *Config) any { return &c.Upstream.Resources.Catalogue.Empty },
		Doc:   "whether the CMS lacks the catalogue: then an empty document is served"},
	{Key: "upstream.resources.catalogue.path", optional: true, check: checkPath, allowed: aPath,
		field: func(c *Config) any { return &c.Upstream.Resources.Catalogue.Path },
		Doc:   "path of the catalogue, relative to the upstream URL; unset: that of the preset (`gvapp/` for `drf`), or `catalogue.json` in a folder"},
	{Key: "upstream.resources.catalogue.parts", optional: true, allowed: "a list of parts",
		field: func(c *Config) any { return &c.Upstream.Resources.Catalogue.Parts },
		Doc:   "the parts that the catalogue is made from, if not the preset's; see [CMS guides](cms/README.md)"},
	{Key: "upstream.resources.catalogue.map", optional: true, allowed: "a jq program",
		field: func(c *Config) any { return &c.Upstream.Resources.Catalogue.Map },
		Doc:   "a jq program that makes the document from all parts"},
	{Key: "upstream.resources.rules.empty", optional: true, words: []string{"false", "true"},
		field: func(c *Config) any { return &c.Upstream.Resources.Rules.Empty },
		Doc:   "the same for the rules"},
	{Key: "upstream.resources.rules.path", optional: true, check: checkPath, allowed: aPath,
		field: func(c *Config) any { return &c.Upstream.Resources.Rules.Path },
		Doc:   "the same for the rules: `cms/rules/`, `rules.json`"},
	{Key: "upstream.resources.rules.parts", optional: true, allowed: "a list of parts",
		field: func(c *Config) any { return &c.Upstream.Resources.Rules.Parts },
		Doc:   "the same for the rules"},
	{Key: "upstream.resources.rules.map", optional: true, allowed: "a jq program",
		field: func(c *Config) any { return &c.Upstream.Resources.Rules.Map },
		Doc:   "the same for the rules"},
	{Key: "upstream.resources.banners.empty", optional: true, words: []string{"false", "true"},
		field: func(c *Config) any { return &c.Upstream.Resources.Banners.Empty },
		Doc:   "the same for the banners"},
	{Key: "upstream.resources.banners.path", optional: true, check: checkPath, allowed: aPath,
		field: func(c *Config) any { return &c.Upstream.Resources.Banners.Path },
		Doc:   "the same for the banners: `gvapp/singlebanner`, `banners.json`"},
	{Key: "upstream.resources.banners.parts", optional: true, allowed: "a list of parts",
		field: func(c *Config) any { return &c.Upstream.Resources.Banners.Parts },
		Doc:   "the same for the banners"},
	{Key: "upstream.resources.banners.map", optional: true, allowed: "a jq program",
		field: func(c *Config) any { return &c.Upstream.Resources.Banners.Map },
		Doc:   "the same for the banners"},
	{Key: "redis.url", Default: "embedded:", check: checkRedis,
		allowed: "embedded:, embedded:[PASSWORD@]HOST:PORT, redis://HOST[:PORT][/DB], rediss:// or unix://PATH",
		field:   func(c *Config) any { return &c.Redis.URL },
		Doc:     "the store that replicas share; `embedded:` is one inside this process (on 127.0.0.1:6380, or `embedded:HOST:PORT`; elsewhere than on loopback `embedded:PASSWORD@HOST:PORT`); Sentinel and Cluster in go-redis's URL forms"},
	{Key: "redis.url_file", contents: "redis.url", optional: true, allowed: aSecretFile,
		field: func(c *Config) any { return &c.Redis.URLFile },
		Doc:   "a file that holds the URL instead, for one with a password"},
	{Key: "redis.prefix", Default: "vitrine:", check: checkPrefix,
		allowed: "1 to 64 printable ASCII characters without spaces, quotes or * ? [ ] \\",
		field:   func(c *Config) any { return &c.Redis.Prefix },
		Doc:     "prefix of every key; other keys are never touched"},
	{Key: "redis.purge_bound", Default: "50ms", min: shortest, max: int64(10 * time.Second),
		field: func(c *Config) any { return &c.Redis.PurgeBound },
		Doc:   "how soon after a purge no replica serves anything older; a Redis that is far away needs more, and start-up, `check` and the status say how much"},
	{Key: "ttl.default", Env: "VITRINE_TTL", Flag: "ttl", Default: "60s", min: shortest, max: longest,
		field: func(c *Config) any { return &c.TTL.Default },
		Doc:   "minimum time a document is fresh; each gets up to a tenth more, in which it is refreshed if it is requested; `ttl: 60s` in the file is the same"},
	{Key: "ttl.catalogue", inherits: "ttl.default", min: shortest, max: longest,
		field: func(c *Config) any { return &c.TTL.Catalogue },
		Doc:   "how long the catalogue is fresh"},
	{Key: "ttl.rules", inherits: "ttl.default", min: shortest, max: longest,
		field: func(c *Config) any { return &c.TTL.Rules },
		Doc:   "how long the rules are fresh"},
	{Key: "ttl.banners", inherits: "ttl.default", min: shortest, max: longest,
		field: func(c *Config) any { return &c.TTL.Banners },
		Doc:   "how long the banners are fresh"},
	{Key: "stale_while_revalidate", Default: "5m", max: longest,
		field: func(c *Config) any { return &c.StaleWhileRevalidate },
		Doc:   "how long past its freshness a document is served while it is refreshed"},
	{Key: "stale_if_error", Default: "24h", max: longest,
		field: func(c *Config) any { return &c.StaleIfError },
		Doc:   "how long past its freshness a document is served if the CMS fails"},
	{Key: "last_good", optional: true, check: checkFolder, allowed: "a folder",
		field: func(c *Config) any { return &c.LastGood },
		Doc:   "folder in which this process keeps its last good documents, for a start with neither Redis nor CMS; each process needs its own; unset: none are kept"},
	{Key: "http.max_age", Default: "0s", max: longest,
		field: func(c *Config) any { return &c.HTTP.MaxAge },
		Doc:   "how long a browser or CDN can keep a response without revalidating"},
	{Key: "http.cdn_max_age", inherits: "http.max_age", max: longest,
		field: func(c *Config) any { return &c.HTTP.CDNMaxAge },
		Doc:   "the same for CDNs that read CDN-Cache-Control; they can be purged by Cache-Groups, browsers cannot"},
	{Key: "http.cdn_stale_while_revalidate", inherits: "stale_while_revalidate", max: longest,
		field: func(c *Config) any { return &c.HTTP.CDNStaleWhileRevalidate },
		Doc:   "how long such a CDN can serve a response while revalidating it, within the document's freshness; 0s: it revalidates first"},
	{Key: "http.hsts", Default: "0s", max: 3 * longest,
		field: func(c *Config) any { return &c.HTTP.HSTS },
		Doc:   "max-age of Strict-Transport-Security, sent on TLS connections; 0s: not sent"},
	{Key: "cors.origins", Default: "*", optional: true, check: checkOrigins,
		allowed: "* or a list of origins such as https://shop.example",
		field:   func(c *Config) any { return &c.CORS.Origins },
		Doc:     "origins whose pages can read responses, separated by commas; empty allows none"},
	{Key: "proxies.trusted", optional: true, check: checkProxies,
		allowed: "networks such as 10.0.0.0/8, addresses, and unix for connections over a unix socket",
		field:   func(c *Config) any { return &c.Proxies.Trusted },
		Doc:     "proxies in front, separated by commas; they alone name their client and the trace of a request"},
	{Key: "proxies.client_header", Default: "X-Forwarded-For", check: checkClientHeader,
		allowed: "a header name",
		field:   func(c *Config) any { return &c.Proxies.ClientHeader },
		Doc:     "header in which those proxies name the client, for the access log: its first address"},
	{Key: "limits.connections", Default: "0", max: 10_000_000,
		field: func(c *Config) any { return &c.Limits.Connections },
		Doc:   "maximum number of connections (503 beyond); 0: as many as the process may have descriptors, less 512, or half of them if that is more"},
	{Key: "limits.target", Default: "4KiB", min: 256, max: 1 << 20,
		field: func(c *Config) any { return &c.Limits.Target },
		Doc:   "maximum length of path and query (414 beyond)"},
	{Key: "limits.header", Default: "12KiB", min: 1 << 10, max: 1 << 20,
		field: func(c *Config) any { return &c.Limits.Header },
		Doc:   "maximum size of a request's header (431 beyond)"},
	{Key: "limits.body", Default: "64KiB", min: 1, max: 16 << 20,
		field: func(c *Config) any { return &c.Limits.Body },
		Doc:   "maximum size of a request's body (413 beyond); bodies are ignored"},
	{Key: "limits.read_timeout", Default: "10s", min: shortest, max: int64(time.Hour),
		field: func(c *Config) any { return &c.Limits.ReadTimeout },
		Doc:   "time limit for receiving a request (408 beyond)"},
	{Key: "limits.write_timeout", Default: "1m", min: shortest, max: int64(time.Hour),
		field: func(c *Config) any { return &c.Limits.WriteTimeout },
		Doc:   "time limit for sending a response"},
	{Key: "limits.idle_timeout", Default: "2m", min: shortest, max: int64(24 * time.Hour),
		field: func(c *Config) any { return &c.Limits.IdleTimeout },
		Doc:   "how long a connection stays open without a request; should exceed that of a load balancer in front"},
	{Key: "log.access", Default: "off", words: []string{"off", "on"},
		field: func(c *Config) any { return &c.Log.Access },
		Doc:   "log requests, at any `log.level`"},
	{Key: "log.level", Default: "info", words: []string{"debug", "info", "warn", "error"},
		field: func(c *Config) any { return &c.Log.Level },
		Doc:   "minimum log level"},
	{Key: "log.format", Default: "text", words: []string{"text", "json"},
		field: func(c *Config) any { return &c.Log.Format },
		Doc:   "`text` for people, with a summary and commands to try at the start; `json` for machines"},
	{Key: "shutdown.delay", Default: "0s", max: int64(5 * time.Minute),
		field: func(c *Config) any { return &c.Shutdown.Delay },
		Doc:   "how long requests are still accepted after /readyz begins to fail, so that a load balancer can notice"},
	{Key: "shutdown.timeout", Default: "8s", min: int64(time.Millisecond), max: int64(10 * time.Minute),
		field: func(c *Config) any { return &c.Shutdown.Timeout },
		Doc:   "time limit for requests in flight after that; Docker kills 10s after SIGTERM, delay included"},
})

// named gives the rows the names that follow from their keys, but for those that the table gives,
// and for those that have none: what differs per resource is said in the file, and a secret on a
// command line could be read by every user of the machine.
func named(rows []Setting) []Setting {
	for i := range rows {
		s := &rows[i]
		if strings.HasPrefix(s.Key, "upstream.resources.") || s.isParts() {
			continue
		}
		if s.Env == "" {
			s.Env = envPrefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
		}
		if s.Flag == "" && !s.isHidden() {
			s.Flag = strings.NewReplacer(".", "-", "_", "-").Replace(s.Key)
		}
	}
	return rows
}

// Settings returns a copy of the table, in the order of the documentation.
func Settings() []Setting { return slices.Clone(settings) }

// lookup finds the row of key.
func lookup(key string) (Setting, bool) {
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return settings[i], true
}

// names lists every setting and group below group, by its whole key. The group "" is the file.
func names(group string) []string {
	var out []string
	for _, s := range settings {
		for i, r := range s.Key + "." {
			key := s.Key[:i]
			if r == '.' && (group == "" || strings.HasPrefix(key, group+".")) && !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	return out
}

// members lists the settings and groups directly in group, by their names there. It is empty if
// there is no such group.
func members(group string) []string {
	var out []string
	for _, key := range names(group) {
		name := strings.TrimPrefix(strings.TrimPrefix(key, group), ".")
		if !strings.Contains(name, ".") {
			out = append(out, name)
		}
	}
	return out
}
