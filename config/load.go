package config

import (
	"errors"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Sources are the places where values are looked for, weakest last.
type Sources struct {
	// Flags are the given flags, by name without dashes.
	Flags map[string]string
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// File is the YAML file. Empty: the one named by VITRINE_CONFIG in Environ, or none.
	File string
}

const envConfig = envPrefix + "CONFIG"

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
	c, mistakes := load(sources)
	var own, others []error
	for _, one := range mistakes {
		if slices.ContainsFunc(keys, func(key string) bool { return key == "" || one.Key != "" && strings.HasPrefix(one.Key, key) }) {
			own = append(own, one)
		} else {
			others = append(others, one)
		}
	}
	return c, errors.Join(others...), errors.Join(own...)
}

// Load reads all layers and returns the configuration in effect. Its error joins every mistake
// found, each an [*Error]; the Config then has everything but what they are about.
func Load(sources Sources) (c Config, err error) {
	c, _, err = LoadOwn(sources, "")
	return c, err
}

// load goes through the layers, the weakest first, twice: once for the name of the preset, over which
// the file is decoded. The file is read once: it may be replaced between the two. What is wrong in one
// layer is reported although a stronger one replaces it.
func load(sources Sources) (Config, []*Error) {
	c := Config{places: make(map[string]place), written: make(map[string]string)}
	l := loader{Config: &c, Sources: sources, variables: make(map[string]string), named: place{name: "--config", layer: fromFlag}}
	for _, assignment := range sources.Environ { // the last one of a name counts
		name, text, _ := strings.Cut(assignment, "=")
		l.variables[name] = text
	}
	var content []byte
	var err error
	if l.File == "" {
		l.File, l.named = l.variables[envConfig], place{name: envConfig, layer: fromEnvironment}
	}
	if l.File != "" {
		content, err = readFile(l.File)
	}
	l.layers(content, err)
	if l.errs, l.secrets = nil, nil; isPreset(c.Upstream.Preset) {
		c.Upstream.Mapping = Mapping{}
		l.preset()
	}
	l.layers(content, err)
	l.keepToken()
	for _, s := range settings {
		if s.Inherits != "" && c.IsDefault(s.Key) {
			other, _ := Lookup(s.Inherits)
			s.field(&c).Set(other.field(&c))
		}
		if file, ok := Lookup(s.Key + "_file"); ok {
			path, _ := file.field(&c).Addr().Interface().(*string)
			l.secretFile(s.Key, s.field(&c), path, s.tag)
		}
	}
	l.combine()
	c.Upstream.Shared.Secrets = l.secrets
	return c, l.errs
}

type loader struct {
	*Config
	Sources
	variables map[string]string // of the environment
	named     place             // of the name of the file
	errs      []*Error
	secrets   []string // in mappings
}

func (l *loader) add(err *Error) { l.errs = append(l.errs, err) }

// wrong reports whether the value of a setting was refused.
func (l *loader) wrong(key string) bool {
	return slices.ContainsFunc(l.errs, func(err *Error) bool { return err.Key == key || err.Key == key+"_file" })
}

func (l *loader) set(s Setting, text string, at place) {
	l.places[s.Key] = at
	if err := parse(s.field(l.Config), s.tag, text); err != nil {
		l.add(refuse(s.Key, at, s.typ, s.tag, text, err))
	}
}

// layers takes over the defaults, the file, the environment and the flags.
func (l *loader) layers(content []byte, err error) {
	for _, s := range settings {
		if l.places[s.Key] = (place{name: s.Key}); s.Default != "" {
			_ = parse(s.field(l.Config), s.tag, s.Default) // which is right
		}
	}
	if err == nil {
		err = (&decoder{loader: l, file: l.File}).decode(content, "", l.Config)
	}
	if err != nil {
		l.add(mistake("", l.named, "want a YAML file that can be read, got %q: %s", l.File, cause(err)))
	}
	l.environment()
	for _, s := range settings {
		if text, ok := l.Flags[s.Flag]; ok && s.Flag != "" {
			l.set(s, text, place{name: "--" + s.Flag, layer: fromFlag})
		}
	}
}

// environment is the layer of the environment. An empty variable counts as unset, because Compose
// passes on unset variables as empty, except for settings with an empty value
// (VITRINE_ADMIN_LISTEN).
func (l *loader) environment() {
	known := map[string]Setting{envConfig: {}}
	for _, s := range settings {
		if s.Env != "" {
			known[s.Env] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.variables)) {
		text, at := l.variables[name], place{name: name, layer: fromEnvironment}
		s, ok := known[name]
		switch {
		case !strings.HasPrefix(name, envPrefix) || name == envConfig:
		case !ok && !serviceLink.MatchString(name+"="+text):
			l.add(unknown(at, name, slices.Sorted(maps.Keys(known)), "known are "))
		case ok && (text != "" || s.tag.Get("unset") != ""):
			l.set(s, text, at)
		}
	}
}

// serviceLink is a variable that Kubernetes sets in every pod for a Service called vitrine or
// vitrine-something. It sets …_PORT to an address, so VITRINE_PORT=8080 is still a mistake.
// https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
var serviceLink = regexp.MustCompile(
	`^\w+_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)=|^\w+_PORT=.*://`)

// secretFile reads a secret from its file, if there is one: the setting called key with _file. Both in
// one layer are a contradiction, otherwise the stronger layer wins.
func (l *loader) secretFile(key string, value reflect.Value, file *string, tag reflect.StructTag) {
	at, other, path := l.places[key+"_file"], l.places[key], *file
	switch {
	case path == "":
		return
	case other.layer != fromDefault && other.layer == at.layer:
		l.add(mistake(key+"_file", at, "want either this or %s (%s), got both", other.name, other))
		return
	case other.layer > at.layer:
		*file = ""
		return
	}
	text, err := readSecret(path)
	switch {
	case key == "admin.token" && errors.Is(err, os.ErrNotExist):
		return // the token is made there
	case err != nil:
		l.add(refuse(key+"_file", at, reflect.TypeFor[string](), `is:"file"`, path, cause(err)))
	case parse(value, tag, text) != nil: // what is allowed is that of its content
		l.add(mistake(key+"_file", at, "want a file with %s, got %q", allowed(value.Type(), tag), path))
	}
	l.places[key] = at
}

// fileLimit is the most bytes of a file.
const fileLimit = 1 << 20

// readFile reads a regular file: nothing else has an end, or is there again at a reload.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(file, fileLimit+1))
	if err == nil && len(content) > fileLimit {
		err = errors.New("it has more than " + Size(fileLimit).String())
	}
	return content, err
}

func readSecret(path string) (string, error) {
	content, err := readFile(path)
	text := strings.TrimSpace(string(content))
	if err == nil && text == "" {
		err = errors.New("it is empty")
	}
	return text, err
}
