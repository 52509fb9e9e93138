package config

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
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

const (
	envPrefix = "VITRINE_"
	envConfig = "VITRINE_CONFIG"
)

// Load reads all layers and returns the configuration in effect. Its error joins every mistake
// found, each an [*Error]; the Config is then invalid.
func Load(sources Sources) (Config, error) {
	v := make(values, len(settings))
	for _, s := range settings {
		if s.Inherits == "" {
			v[s.Key] = given{text: s.Default, origin: origin{name: s.Key, layer: fromDefault}}
		}
	}
	errs := v.file(sources)
	errs = append(errs, v.environment(sources.Environ)...)
	for _, s := range settings {
		if text, ok := sources.Flags[s.Flag]; ok && s.Flag != "" {
			v[s.Key] = given{text: text, origin: origin{name: "--" + s.Flag, layer: fromFlag}}
		}
	}
	errs = append(errs, v.resolve()...)
	var c Config
	wrong := make(map[string]bool)
	for _, s := range settings {
		if err := v.set(&c, s); err != nil {
			errs, wrong[s.Key] = append(errs, err), true
		}
	}
	errs = append(errs, incomplete(v)...)
	// A value that could not be parsed is reported already.
	if !wrong["listen"] && !wrong["admin.listen"] && !wrong["redis.url"] {
		errs = append(errs, collisions(&c, v)...)
	}
	if !wrong["admin.listen"] && !wrong["admin.token"] {
		errs = append(errs, exposed(&c, v)...)
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	c.origins = make(map[string]origin, len(v))
	for key, g := range v {
		c.origins[key] = g.origin
	}
	return c, nil
}

// set parses the value of s. A mistake in an inherited one is reported with its source.
func (v values) set(c *Config, s Setting) error {
	g := v[s.Key]
	if err := s.set(c, g); err != nil && (s.Inherits == "" || g.origin != v[s.Inherits].origin) {
		return refuse(s, g, err)
	}
	return nil
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
	for _, variable := range environ {
		name, text, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envConfig {
			continue
		}
		o := origin{name: name, layer: fromEnvironment}
		s, ok := known[name]
		switch {
		case !ok && !isServiceLink(name, text):
			errs = append(errs, unknown(o, len(envPrefix), slices.Sorted(maps.Keys(known)), "known are %s"))
		case ok && (text != "" || s.optional && s.Default != ""):
			v[s.Key] = given{text: text, origin: o}
		}
	}
	return errs
}

// Kubernetes sets these in every pod for a Service called vitrine or vitrine-something.
// https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
var (
	serviceHost = regexp.MustCompile(`_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$`)
	servicePort = regexp.MustCompile(`_PORT(_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?$`)
)

// isServiceLink reports whether name is such a variable. Kubernetes sets …_PORT to an address, so
// VITRINE_PORT=8080 is still a mistake.
func isServiceLink(name, text string) bool {
	suffix := servicePort.FindStringSubmatch(name)
	return serviceHost.MatchString(name) || suffix != nil && (suffix[1] != "" || strings.Contains(text, "://"))
}

// resolve gives an unset setting that inherits the value and origin of the other, decides between a
// value and its file, and reads the file. Both in one place are a contradiction, otherwise the
// stronger layer wins.
func (v values) resolve() (errs []error) {
	for _, s := range settings {
		if _, ok := v[s.Key]; !ok {
			v[s.Key] = v[s.Inherits]
		}
		file, value := v[s.Key], v[s.holds]
		switch {
		case s.holds == "" || file.text == "":
		case value.layer == fromDefault || value.text == "" || value.layer < file.layer:
			if err := v.read(s, file); err != nil {
				errs = append(errs, err)
			}
		case value.layer == file.layer:
			errs = append(errs, mistake(file.origin, "want either this or %s (%s), got both", value.name, value.place()))
			fallthrough
		default:
			v[s.Key] = given{origin: value.origin}
		}
	}
	return errs
}

// read replaces the value that s names a file for by the file's content, or, if that fails, by its
// default, so that one mistake is not reported twice.
func (v values) read(s Setting, file given) error {
	target, _ := Lookup(s.holds)
	text, err := readSecret(file.text)
	if err == nil { // the message about the content of the file names the file's setting
		err = target.set(new(Config), given{text: text})
		if errors.Is(err, errUnsaid) {
			err = errors.New("the file does not contain " + target.Allowed())
		}
	}
	if err != nil {
		err, text = refuse(s, file, err), target.Default
	}
	v[s.holds] = given{text: text, origin: file.origin}
	return err
}

// incomplete finds settings that need another one that is missing.
func incomplete(given values) []error {
	cert, key := given["tls.cert_file"], given["tls.key_file"]
	if cert.text != "" && key.text == "" {
		return []error{mistake(cert.origin, "want the key as well, in VITRINE_TLS_KEY_FILE")}
	}
	if cert.text == "" && key.text != "" {
		return []error{mistake(key.origin, "want the certificate as well, in VITRINE_TLS_CERT_FILE")}
	}
	return nil
}

// collisions finds settings whose values exclude each other.
func collisions(c *Config, given values) []error {
	type listener struct{ key, address string }
	listeners := []listener{{"listen", c.Listen}, {"admin.listen", c.Admin.Listen}}
	if address, ok := strings.CutPrefix(c.Redis.URL.Reveal(), "embedded:"); ok {
		_, address = splitPassword(address)
		listeners = append(listeners, listener{"redis.url", address})
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

// exposed finds an operator's address that is not loopback and has no token. An invalid token is
// reported elsewhere.
func exposed(c *Config, given values) []error {
	if a := c.Admin; a.Listen == "" || a.Token.Reveal() != "" || a.IsLoopback() || given["admin.token_file"].text != "" {
		return nil
	}
	return []error{mistake(given["admin.listen"].origin,
		"want a token in VITRINE_ADMIN_TOKEN, or a loopback address such as 127.0.0.1:9090; got %q and no token", c.Admin.Listen)}
}

// IsLoopback reports whether only this machine reaches the operator's address.
func (a Admin) IsLoopback() bool { return isLoopback(a.Listen) }
