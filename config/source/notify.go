package source

// Target is one who is told what happens to documents: an item of notify in the configuration file.
// Its preset has the keys that the item has not.
//
// URL and Path together are the URL of a request. Path, Headers and Body have placeholders:
// {resource} and {event}; {id}, {seq} and {etag}; {zone}, {service}, {token} and {secret}; {json},
// which is the event as JSON; and {signature}, the HMAC-SHA256 of the body in hexadecimal with
// Secret as its key. A header whose {signature} is empty is not sent.
type Target struct {
	// Name names the target in the status, in metrics and in Redis. Required, and unique.
	Name string `yaml:"name" is:"target's name"`
	// Preset is one of the program's own. Empty: everything is said here.
	Preset string `yaml:"preset"`
	URL    string `yaml:"url" is:"target's URL"`
	// Events are those it is told of. None: those of a cache, or all.
	Events []string `yaml:"events"`
	// Zone, Service, Token and Secret are for the placeholders. A file holds the last two instead.
	Zone       string `yaml:"zone"`
	Service    string `yaml:"service"`
	Token      string `yaml:"token" is:"header"`
	TokenFile  string `yaml:"token_file"`
	Secret     string `yaml:"secret" is:"header"`
	SecretFile string `yaml:"secret_file"`

	Method  string            `yaml:"method" is:"method"`
	Path    string            `yaml:"path"`
	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
	// Cache says that it keeps responses until it is told: http.cdn_max_age may then exceed their
	// freshness.
	Cache bool `yaml:"cache"`
	// Tags is the header field in which it reads the tags of responses, beside Cache-Groups.
	Tags string `yaml:"tags" oneof:"Cache-Tag Surrogate-Key"`
	// Secrets are the values in all targets that nobody may see.
	Secrets []string `yaml:"-"`
}

// The events of which a [Target] is told.
const (
	EventChanged   = "changed"   // a document with another etag is served from now on
	EventPurged    = "purged"    // a document was purged (hard)
	EventHeld      = "held"      // a document of the CMS is held back
	EventFailing   = "failing"   // two fetches in a row failed
	EventRecovered = "recovered" // a fetch succeeded after that
)
