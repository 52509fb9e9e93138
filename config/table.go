package config

import (
	"strings"
	"time"
)

// longest is the upper bound of how long a document is kept: a year.
const longest = int64(365 * 24 * time.Hour)

// settings is the table. A setting exists when it has a row here.
var settings = named([]Setting{
	{
		Key: "listen", Default: ":8080", allowed: aPublicAddress, check: checkPublicAddress,
		Doc:   "the public address, a port or a unix socket",
		field: func(c *Config) any { return &c.Listen },
	},
	{
		Key: "admin.listen", Default: "127.0.0.1:9090", optional: true, allowed: anAddress, check: checkAddress,
		Doc:   "the operator's address; empty switches it off",
		field: func(c *Config) any { return &c.Admin.Listen },
	},
	{
		Key: "admin.token", optional: true, check: checkToken,
		allowed: "8 to 512 printable ASCII characters without spaces",
		Doc:     "what the operator's address asks for, as a bearer's token or as a password, by everything but /livez and /readyz; required unless the address is loopback",
		field:   func(c *Config) any { return &c.Admin.Token },
	},
	{
		Key: "admin.token_file", optional: true, allowed: aSecretFile, contents: "admin.token",
		Doc:   "a file that holds the token instead",
		field: func(c *Config) any { return &c.Admin.TokenFile },
	},
	{
		Key: "admin.pprof", Default: "off", words: []string{"off", "on"},
		Doc:   "whether the operator's address has Go's profiles at /debug/pprof/",
		field: func(c *Config) any { return &c.Admin.Pprof },
	},
	{
		Key: "hook.secret", optional: true, check: checkToken,
		allowed: "8 to 512 printable ASCII characters without spaces",
		Doc:     "what a CMS shows that it knows when it says at /hooks/content that content changed, as the key of an HMAC-SHA256 or as a bearer's token; without one nothing listens there",
		field:   func(c *Config) any { return &c.Hook.Secret },
	},
	{
		Key: "hook.secret_file", optional: true, allowed: aSecretFile, contents: "hook.secret",
		Doc:   "a file that holds that secret instead",
		field: func(c *Config) any { return &c.Hook.SecretFile },
	},
	{
		Key: "hook.signature_header", Default: "X-Vitrine-Signature", check: checkClientHeader,
		allowed: "the name of a header",
		Doc:     "where the HMAC is, in hexadecimal, with or without `sha256=` before it, or in base64",
		field:   func(c *Config) any { return &c.Hook.SignatureHeader },
	},
	{
		Key: "hook.match.catalogue", Default: "true", allowed: "a jq program",
		Doc:   "a jq program over the body of a delivery: the catalogue is purged softly when it yields anything but false or null",
		field: func(c *Config) any { return &c.Hook.Match.Catalogue },
	},
	{
		Key: "hook.match.rules", Default: "true", allowed: "a jq program",
		Doc:   "the same for the rules",
		field: func(c *Config) any { return &c.Hook.Match.Rules },
	},
	{
		Key: "hook.match.banners", Default: "true", allowed: "a jq program",
		Doc:   "the same for the banners",
		field: func(c *Config) any { return &c.Hook.Match.Banners },
	},
	{
		Key: "tls.cert_file", optional: true, allowed: aPEMFile,
		Doc:   "the certificate for the public address, with those that it was signed by, in PEM; read again when it changes; if nothing is said there is no TLS",
		field: func(c *Config) any { return &c.TLS.CertFile },
	},
	{
		Key: "tls.key_file", optional: true, allowed: aPEMFile,
		Doc:   "its key, in PEM",
		field: func(c *Config) any { return &c.TLS.KeyFile },
	},
	{
		Key: "upstream.url", Default: "sample:", check: checkUpstream,
		allowed: "sample:, file:DIR, or http(s)://HOST[:PORT][/BASE]",
		Doc:     "where content comes from: `sample:` the bundled content, `file:DIR` a folder with catalogue.json, rules.json and banners.json, or the CMS's base URL",
		field:   func(c *Config) any { return &c.Upstream.URL },
	},
	{
		Key: "upstream.preset", Default: "drf", words: []string{"drf", "strapi4", "strapi5", "directus", "wordpress", "custom"},
		Doc:   "which CMS it is: `drf` is Django REST Framework; `custom` knows nothing, and has it all from the file",
		field: func(c *Config) any { return &c.Upstream.Preset },
	},
	{
		Key: "upstream.authorization", optional: true, allowed: "the value of an Authorization header in printable ASCII", check: checkHeader,
		Doc:   "the Authorization header sent upstream",
		field: func(c *Config) any { return &c.Upstream.Authorization },
	},
	{
		Key: "upstream.authorization_file", optional: true, allowed: aSecretFile, contents: "upstream.authorization",
		Doc:   "a file that holds the Authorization header instead, such as a container's secret",
		field: func(c *Config) any { return &c.Upstream.AuthorizationFile },
	},
	{
		Key: "upstream.timeout", Default: "10s", min: int64(time.Millisecond), max: int64(10 * time.Minute),
		Doc:   "the time for one fetch of a resource, its retries and pages included",
		field: func(c *Config) any { return &c.Upstream.Timeout },
	},
	{
		Key: "upstream.retries", Default: "2", min: 0, max: 10,
		Doc:   "how often a failed request is repeated, within the timeout",
		field: func(c *Config) any { return &c.Upstream.Retries },
	},
	{
		Key: "upstream.max_bytes", Default: "32MiB", min: 1, max: 1 << 30,
		Doc:   "the most that a resource may have, decompressed",
		field: func(c *Config) any { return &c.Upstream.MaxBytes },
	},
	{
		Key: "upstream.resources.catalogue.path", optional: true, allowed: aPath, check: checkPath,
		Doc:   "where the catalogue is, relative to the upstream URL; if nothing is said `gvapp/`, or where the preset has it, and in a folder `catalogue.json`",
		field: func(c *Config) any { return &c.Upstream.Resources.Catalogue.Path },
	},
	{
		Key: "upstream.resources.catalogue.parts", optional: true, allowed: "a list of parts",
		Doc:   "what the catalogue is made from, where that is not what the preset knows: a list of parts, see [CMS guides](cms/README.md)",
		field: func(c *Config) any { return &c.Upstream.Resources.Catalogue.Parts },
	},
	{
		Key: "upstream.resources.catalogue.map", optional: true, allowed: "a jq program",
		Doc:   "a jq program that makes the document of all parts",
		field: func(c *Config) any { return &c.Upstream.Resources.Catalogue.Map },
	},
	{
		Key: "upstream.resources.rules.path", optional: true, allowed: aPath, check: checkPath,
		Doc:   "the same for the rules: `cms/rules/`, `rules.json`",
		field: func(c *Config) any { return &c.Upstream.Resources.Rules.Path },
	},
	{
		Key: "upstream.resources.rules.parts", optional: true, allowed: "a list of parts",
		Doc:   "the same for the rules",
		field: func(c *Config) any { return &c.Upstream.Resources.Rules.Parts },
	},
	{
		Key: "upstream.resources.rules.map", optional: true, allowed: "a jq program",
		Doc:   "the same for the rules",
		field: func(c *Config) any { return &c.Upstream.Resources.Rules.Map },
	},
	{
		Key: "upstream.resources.banners.path", optional: true, allowed: aPath, check: checkPath,
		Doc:   "the same for the banners: `gvapp/singlebanner`, `banners.json`",
		field: func(c *Config) any { return &c.Upstream.Resources.Banners.Path },
	},
	{
		Key: "upstream.resources.banners.parts", optional: true, allowed: "a list of parts",
		Doc:   "the same for the banners",
		field: func(c *Config) any { return &c.Upstream.Resources.Banners.Parts },
	},
	{
		Key: "upstream.resources.banners.map", optional: true, allowed: "a jq program",
		Doc:   "the same for the banners",
		field: func(c *Config) any { return &c.Upstream.Resources.Banners.Map },
	},
	{
		Key: "redis.url", Default: "embedded:", check: checkRedis,
		allowed: "embedded:, embedded:HOST:PORT, redis://HOST[:PORT][/DB], rediss:// or unix://PATH",
		Doc:     "the store that replicas share: `embedded:` is one inside this process (on 127.0.0.1:6380, or `embedded:HOST:PORT`); Sentinel and Cluster as go-redis's own URL forms have them",
		field:   func(c *Config) any { return &c.Redis.URL },
	},
	{
		Key: "redis.url_file", optional: true, allowed: aSecretFile, contents: "redis.url",
		Doc:   "a file that holds the address of Redis instead, for one with a password",
		field: func(c *Config) any { return &c.Redis.URLFile },
	},
	{
		Key: "redis.prefix", Default: "vitrine:", check: checkPrefix,
		allowed: "1 to 64 printable ASCII characters without spaces, quotes or * ? [ ] \\",
		Doc:     "what every key begins with; other keys are never touched",
		field:   func(c *Config) any { return &c.Redis.Prefix },
	},
	{
		Key: "ttl.default", Env: "VITRINE_TTL", Flag: "ttl", Default: "60s", min: int64(10 * time.Millisecond), max: longest,
		Doc:   "how long a document is fresh, at least: each gets up to a tenth more, in which it is refreshed if it is being read; in the file, `ttl: 60s` says it too",
		field: func(c *Config) any { return &c.TTL.Default },
	},
	{
		Key: "ttl.catalogue", inherits: "ttl.default", min: int64(10 * time.Millisecond), max: longest,
		Doc:   "how long the catalogue is fresh",
		field: func(c *Config) any { return &c.TTL.Catalogue },
	},
	{
		Key: "ttl.rules", inherits: "ttl.default", min: int64(10 * time.Millisecond), max: longest,
		Doc:   "how long the rules are fresh",
		field: func(c *Config) any { return &c.TTL.Rules },
	},
	{
		Key: "ttl.banners", inherits: "ttl.default", min: int64(10 * time.Millisecond), max: longest,
		Doc:   "how long the banners are fresh",
		field: func(c *Config) any { return &c.TTL.Banners },
	},
	{
		Key: "stale_while_revalidate", Default: "5m", max: longest,
		Doc:   "how long past its freshness a document is still served while a refresh runs",
		field: func(c *Config) any { return &c.StaleWhileRevalidate },
	},
	{
		Key: "stale_if_error", Default: "24h", max: longest,
		Doc:   "how long past its freshness a document is still served when the CMS fails",
		field: func(c *Config) any { return &c.StaleIfError },
	},
	{
		Key: "http.max_age", Default: "0s", max: longest,
		Doc:   "how much longer a browser or CDN may keep an answer without asking",
		field: func(c *Config) any { return &c.HTTP.MaxAge },
	},
	{
		Key: "http.cdn_max_age", inherits: "http.max_age", max: longest,
		Doc:   "how much longer a CDN that knows CDN-Cache-Control may keep an answer without asking; it can be purged by Cache-Groups, a browser cannot",
		field: func(c *Config) any { return &c.HTTP.CDNMaxAge },
	},
	{
		Key: "http.cdn_stale_while_revalidate", inherits: "stale_while_revalidate", max: longest,
		Doc:   "how much longer such a CDN may give an answer while it asks, within the document's freshness; 0s makes it ask first",
		field: func(c *Config) any { return &c.HTTP.CDNStaleWhileRevalidate },
	},
	{
		Key: "http.hsts", Default: "0s", max: 3 * longest,
		Doc:   "for how long browsers are told to use TLS only (Strict-Transport-Security), on connections that are TLS here; 0s does not tell them",
		field: func(c *Config) any { return &c.HTTP.HSTS },
	},
	{
		Key: "cors.origins", Default: "*", optional: true, check: checkOrigins,
		allowed: "* or a list of origins such as https://shop.example",
		Doc:     "which origins may read the answers in a browser, separated by commas; empty allows none",
		field:   func(c *Config) any { return &c.CORS.Origins },
	},
	{
		Key: "proxies.trusted", optional: true, check: checkProxies,
		allowed: "networks such as 10.0.0.0/8, addresses, and unix for whoever comes over a unix socket",
		Doc:     "the proxies in front that are believed about who their client is, separated by commas",
		field:   func(c *Config) any { return &c.Proxies.Trusted },
	},
	{
		Key: "proxies.client_header", Default: "X-Forwarded-For", check: checkClientHeader,
		allowed: "the name of a field that holds addresses",
		Doc:     "where those proxies say it: an address, or a list of which the last one that is no trusted proxy counts",
		field:   func(c *Config) any { return &c.Proxies.ClientHeader },
	},
	{
		Key: "limits.connections", Default: "0", max: 10_000_000,
		Doc:   "how many connections are served at a time (503 beyond); 0 is 262144, more than most systems give a process",
		field: func(c *Config) any { return &c.Limits.Connections },
	},
	{
		Key: "limits.target", Default: "4KiB", min: 256, max: 1 << 20,
		Doc:   "the longest path and query (414 beyond)",
		field: func(c *Config) any { return &c.Limits.Target },
	},
	{
		Key: "limits.header", Default: "12KiB", min: 1 << 10, max: 1 << 20,
		Doc:   "the most that a request's header may have (431 beyond)",
		field: func(c *Config) any { return &c.Limits.Header },
	},
	{
		Key: "limits.body", Default: "64KiB", min: 1, max: 16 << 20,
		Doc:   "the most that a request's body may have, though nobody looks at it (413 beyond)",
		field: func(c *Config) any { return &c.Limits.Body },
	},
	{
		Key: "limits.read_timeout", Default: "10s", min: int64(10 * time.Millisecond), max: int64(time.Hour),
		Doc:   "how long a request may take to arrive (408 beyond)",
		field: func(c *Config) any { return &c.Limits.ReadTimeout },
	},
	{
		Key: "limits.write_timeout", Default: "1m", min: int64(10 * time.Millisecond), max: int64(time.Hour),
		Doc:   "how long an answer may take to be read",
		field: func(c *Config) any { return &c.Limits.WriteTimeout },
	},
	{
		Key: "limits.idle_timeout", Default: "2m", min: int64(10 * time.Millisecond), max: int64(24 * time.Hour),
		Doc:   "how long a connection stays open without a request; longer than a load balancer in front keeps its own",
		field: func(c *Config) any { return &c.Limits.IdleTimeout },
	},
	{
		Key: "log.access", Default: "off", words: []string{"off", "on"},
		Doc:   "whether each request is logged, whatever `log.level` says",
		field: func(c *Config) any { return &c.Log.Access },
	},
	{
		Key: "log.level", Default: "info", words: []string{"debug", "info", "warn", "error"},
		Doc:   "the least important messages that are logged",
		field: func(c *Config) any { return &c.Log.Level },
	},
	{
		Key: "log.format", Default: "text", words: []string{"text", "json"},
		Doc:   "`text` for people, who are also shown what is served and commands to try; `json` for machines",
		field: func(c *Config) any { return &c.Log.Format },
	},
	{
		Key: "shutdown.delay", Default: "0s", max: int64(5 * time.Minute),
		Doc:   "how long requests are still accepted after /readyz began to fail; as long as a load balancer needs to notice",
		field: func(c *Config) any { return &c.Shutdown.Delay },
	},
	{
		Key: "shutdown.timeout", Default: "8s", min: int64(time.Millisecond), max: int64(10 * time.Minute),
		Doc:   "how long requests under way may then take to finish; delay and timeout together belong under the 10s after which Docker kills",
		field: func(c *Config) any { return &c.Shutdown.Timeout },
	},
})

// named gives the rows the names that follow from their keys, but for those
// that the table gives, and for those that have none: what differs per
// resource is said in the file, and a secret on a command line could be read
// by every user of the machine.
func named(rows []Setting) []Setting {
	for i := range rows {
		s := &rows[i]
		if strings.HasPrefix(s.Key, "upstream.resources.") {
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
