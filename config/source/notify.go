package source

// Target is an endpoint of notify: an item in the configuration file.
// Its preset has the keys that the item has not.
//
// URL and Path together are the URL of a request. Path and Headers have placeholders: {resource} and
// {event}; {id}, {seq} and {etag}; {zone}, {service}, {token} and {secret}; and {signature}, the
// HMAC-SHA256 of the body in hexadecimal with Secret as its key. A header whose {signature} is empty
// is not sent.
type Target struct {
	Name       string   `yaml:"name" is:"target's name"`     // in the status, in metrics and in Redis; required, and unique
	Preset     string   `yaml:"preset" is:"target's preset"` // one of the program's own, or everything is said here
	URL        URL      `yaml:"url" is:"target's URL"`
	Events     []string `yaml:"events" oneof:"changed purged held released failing recovered" unset:"ok"` // none: those of a cache, or all
	Zone       string   `yaml:"zone"`                                                                     // for placeholders, as the next five
	Service    string   `yaml:"service"`
	Token      Secret   `yaml:"token" is:"header"`
	TokenFile  string   `yaml:"token_file"` // holds Token, as SecretFile holds Secret
	Secret     Secret   `yaml:"secret" is:"header"`
	SecretFile string   `yaml:"secret_file"`
	Method     string   `yaml:"method" is:"method"`
	Path       Secret   `yaml:"path" is:"target's path"`
	Headers    Headers  `yaml:"headers"`
	Body       string   `yaml:"body" is:"predicate"`                  // a jq program that makes it from the event: JSON, or a text as it is
	Cache      bool     `yaml:"cache"`                                // it keeps responses until it is notified: http.cdn_max_age may exceed their freshness
	Tags       string   `yaml:"tags" oneof:"Cache-Tag Surrogate-Key"` // the header in which it reads the tags of responses, beside Cache-Groups
	Secrets    Secrets  `yaml:"-"`                                    // of the file, to be masked
}

// The events of which a [Target] is notified.
const (
	EventChanged   = "changed"   // a document with another etag is served from now on
	EventPurged    = "purged"    // a document was purged (hard)
	EventHeld      = "held"      // a document of the CMS is held back
	EventReleased  = "released"  // a document is no longer held back
	EventFailing   = "failing"   // two fetches in a row failed
	EventRecovered = "recovered" // a fetch succeeded after that
)
