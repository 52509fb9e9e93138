package config

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Sources are the places where values are looked for, weakest last.
type Sources struct {
	// Flags are the given flags, by name without dashes.
	Flags map[string]string
	// Environ is the environment in the form of os.Environ. Only names that begin with VITRINE_ are
	// used.
	Environ []string
	// File is the YAML file. Empty: the one named by VITRINE_CONFIG in Environ, or none.
	File string
}

// Empty reports whether the flags and the environment set nothing, nor name a file.
func (s Sources) Empty() bool {
	return s.File == "" && len(s.Flags) == 0 && !slices.ContainsFunc(s.Environ, func(assignment string) bool {
		name, text, _ := strings.Cut(assignment, "=")
		return strings.HasPrefix(name, envPrefix) && text != "" && !serviceLink.MatchString(assignment)
	})
}

// LoadOwn is [Load] for a command that needs only the settings whose keys begin with these.
// Mistakes about others are returned as ignored, as is a file that is not YAML.
func LoadOwn(sources Sources, keys ...string) (c Config, ignored, err error) {
	c, all := Load(sources)
	joined, ok := all.(interface{ Unwrap() []error })
	if !ok {
		return c, nil, all
	}
	for _, one := range joined.Unwrap() {
		mistake, ok := errors.AsType[*Error](one)
		if !ok || slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(mistake.Key, key) }) {
			err = errors.Join(err, one)
		} else {
			ignored = errors.Join(ignored, one)
		}
	}
	return c, ignored, err
}

const envConfig = envPrefix + "CONFIG"

// Load reads all layers and returns the configuration in effect. Its error joins every mistake
// found, each an [*Error]; the Config then has everything but what they are about.
func Load(sources Sources) (Config, error) {
	v := make(values, len(settings))
	for _, s := range settings {
		if s.Inherits == "" {
			v[s.Key] = given{text: s.Default, origin: origin{key: s.Key, name: s.Key, layer: fromDefault}}
		}
	}
	path, errs := v.file(sources)
	errs = append(errs, v.environment(sources.Environ)...)
	for _, s := range settings {
		if text, ok := sources.Flags[s.Flag]; ok && s.Flag != "" {
			v[s.Key] = given{text: text, origin: origin{key: s.Key, name: "--" + s.Flag, layer: fromFlag}}
		}
	}
	v.resolve()
	c := Config{origins: make(map[string]origin, len(v)), written: make(map[string]string), trees: make(map[string]tree)}
	wrong := make(map[string]bool)
	for _, s := range settings {
		g := v[s.Key]
		c.origins[s.Key] = g.origin
		if g.written != "" {
			c.written[s.Key] = g.written
		}
		if err := v.set(&c, s); err != nil {
			errs, wrong[s.Key] = append(errs, err), true
		}
	}
	// A value that is wrong is reported already.
	errs = append(errs, incomplete(v, wrong)...)
	if !wrong["listen"] && !wrong["admin.listen"] && !wrong["redis.url"] {
		errs = append(errs, collisions(&c, v)...)
	}
	if !wrong["redis.url"] && !wrong["redis.prefix"] {
		errs = append(errs, scattered(&c, v)...)
	}
	if !wrong["admin.listen"] && !wrong["admin.token"] && !wrong["admin.token_file"] {
		errs = append(errs, exposed(&c, v)...)
	}
	if !wrong["upstream.preset"] {
		errs = append(errs, c.content(v, path, sources.Environ)...)
	}
	if login := c.origins["upstream.shared.login"]; c.Upstream.Shared.Login != nil && c.Upstream.Authorization.Reveal() != "" {
		errs = append(errs, mistake(v["upstream.authorization"].origin, "want either this or %s (%s), got both", login.name, login.place()))
	}
	errs = append(errs, c.targets(v, path, sources.Environ)...)
	return c, errors.Join(errs...)
}

// set parses the value of s, unless it is a tree. A mistake in an inherited one is reported with
// its source.
func (v values) set(c *Config, s Setting) error {
	if s.isTree() {
		return nil
	}
	g := v[s.Key]
	err := g.wrong
	if err == nil {
		err = refuse(s, g, s.parse(s.field(c), g.text))
	}
	if s.Inherits != "" && g.origin == v[s.Inherits].origin {
		return nil
	}
	return err
}

// file is the layer of the YAML file, if there is one. It also returns its path.
func (v values) file(sources Sources) (path string, errs []error) {
	path, named := sources.File, origin{name: "--config", layer: fromFlag}
	if path == "" {
		path, named = variable(sources.Environ, envConfig), origin{name: envConfig, layer: fromEnvironment}
	}
	if path == "" {
		return "", nil
	}
	d := decoder{reader: reader{environ: sources.Environ}, file: path, values: v}
	content, err := readFile(path, fileLimit)
	var root *yaml.Node
	if err == nil {
		root, err = d.root(content)
	}
	if err != nil {
		return path, []error{mistake(named, "want a YAML file that can be read, got %q: %s",
			path, strings.TrimPrefix(cause(err).Error(), "yaml: "))}
	}
	if root != nil {
		d.group(root, "", reflect.TypeFor[Config]())
	}
	return path, d.errs
}

// environment is the layer of the environment. An empty variable counts as unset, because Compose
// passes on unset variables as empty, except for settings with an empty value
// (VITRINE_ADMIN_LISTEN).
func (v values) environment(environ []string) (errs []error) {
	known := map[string]Setting{envConfig: {}}
	for _, s := range settings {
		if s.Env != "" {
			known[s.Env] = s
		}
	}
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envConfig {
			continue
		}
		text := variable(environ, name)
		o := origin{name: name, layer: fromEnvironment}
		s, ok := known[name]
		o.key = s.Key
		switch {
		case !ok && !serviceLink.MatchString(assignment):
			errs = append(errs, unknown(o, name, slices.Sorted(maps.Keys(known)), "known are "))
		case ok && (text != "" || s.optional && s.Default != ""):
			v[s.Key] = given{text: text, origin: o}
		}
	}
	return errs
}

// serviceLink is a variable that Kubernetes sets in every pod for a Service called vitrine or
// vitrine-something. It sets …_PORT to an address, so VITRINE_PORT=8080 is still a mistake.
// https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
var serviceLink = regexp.MustCompile(
	`^\w+_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)=|^\w+_PORT=.*://`)

// resolve gives an unset setting that inherits the value and origin of the other, decides between a
// value and its file, and reads the file. Both in one place are a contradiction, otherwise the
// stronger layer wins.
func (v values) resolve() {
	for _, s := range settings {
		if _, ok := v[s.Key]; !ok {
			v[s.Key] = v[s.Inherits]
		}
		file, value := v[s.Key], v[s.holds]
		switch {
		case s.holds == "" || file.text == "":
		case value.layer == fromDefault || value.text == "" && value.wrong == nil || value.layer < file.layer:
			v.read(s, file)
		case value.layer == file.layer:
			file.wrong = mistake(file.origin, "want either this or %s (%s), got both", value.name, value.place())
			v[s.Key] = file
		default:
			v[s.Key] = given{origin: value.origin}
		}
	}
}

// read replaces the value that s names a file for by the file's content, or, if that fails, by its
// default, so that one mistake is not reported twice.
func (v values) read(s Setting, file given) {
	target, _ := Lookup(s.holds)
	text, err := readSecret(file.text)
	if err == nil { // the setting is that of the file, and what is allowed that of its content
		err = target.parse(target.field(new(Config)), text)
		s.rule.allowed = "a file with " + target.Allowed()
	}
	if file.wrong = refuse(s, file, err); err != nil {
		text, v[s.Key] = target.Default, file
	}
	v[s.holds] = given{text: text, origin: file.origin}
}

// incomplete finds settings that need another one that is missing.
func incomplete(given values, wrong map[string]bool) (errs []error) {
	for _, need := range []struct{ key, other, absent, what string }{
		{"tls.cert_file", "tls.key_file", "", "the key as well, in VITRINE_TLS_KEY_FILE"},
		{"tls.key_file", "tls.cert_file", "", "the certificate as well, in VITRINE_TLS_CERT_FILE"},
		{"log.access_path", "log.access", "off", "on or combined as well, in VITRINE_LOG_ACCESS"},
		{"hook.secret", "admin.listen", "", "the operator's address as well, at which the webhook is, in VITRINE_ADMIN_LISTEN"},
	} {
		if given[need.key].text != "" && given[need.other].text == need.absent && !wrong[need.other] {
			errs = append(errs, mistake(given[need.key].origin, "want %s", need.what))
		}
	}
	return errs
}

// collisions finds settings whose values exclude each other.
func collisions(c *Config, given values) []error {
	type listener struct{ key, address string }
	listeners := []listener{{"listen", c.Listen}, {"admin.listen", c.Admin.Listen}}
	if address, ok := strings.CutPrefix(c.Redis.URL.Reveal(), "embedded:"); ok {
		port := address[strings.LastIndexByte(address, ':')+1:]
		listeners = append(listeners, listener{"redis.url", net.JoinHostPort("127.0.0.1", port)})
	}
	var errs []error
	for i, a := range listeners {
		for _, b := range listeners[:i] {
			if overlap(a.address, b.address) {
				errs = append(errs, mistake(given[a.key].origin, "want another address, got %q, which is used by %s (%s)",
					a.address, given[b.key].name, given[b.key].place()))
			}
		}
	}
	return errs
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
func scattered(c *Config, given values) []error {
	u, err := url.Parse(c.Redis.URL.Reveal())
	before, rest, _ := strings.Cut(c.Redis.Prefix, "{")
	if tag, _, closed := strings.Cut(rest, "}"); err != nil || !u.Query().Has("addr") || u.Query().Has("master_name") ||
		closed && tag != "" || before == c.Redis.Prefix && !strings.Contains(before, "}") {
		return nil
	}
	return []error{mistake(given["redis.prefix"].origin,
		"want no braces, or first a whole hash tag such as {vitrine}:, since redis.url is that of a Cluster; got %q", c.Redis.Prefix)}
}

// exposed finds an operator's address that is not loopback and has no token.
func exposed(c *Config, given values) []error {
	if a := c.Admin; a.Listen == "" || a.Token.Reveal() != "" || a.IsLoopback() {
		return nil
	}
	return []error{mistake(given["admin.listen"].origin,
		"want a token in VITRINE_ADMIN_TOKEN, or a loopback address such as 127.0.0.1:9090; got %q and no token", c.Admin.Listen)}
}

// IsLoopback reports whether only this machine reaches the operator's address.
func (a Admin) IsLoopback() bool {
	host, _, err := net.SplitHostPort(a.Listen)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}
