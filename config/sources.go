package config

import (
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

// defaults is the layer of the table itself.
func (v values) defaults() {
	for _, s := range settings {
		if s.inherits == "" {
			v[s.Key] = given{text: s.Default, origin: origin{name: s.Key, layer: fromDefault}}
		}
	}
}

// flags is the layer of the command line.
func (v values) flags(byName map[string]string) {
	for _, s := range settings {
		if text, ok := byName[s.Flag]; ok && s.Flag != "" {
			v[s.Key] = given{text: text, origin: origin{name: "--" + s.Flag, layer: fromFlag}}
		}
	}
}

// environment is the layer of the environment. An empty variable counts as unset, because Compose
// passes on unset variables as empty, except for settings with an empty value
// (VITRINE_ADMIN_LISTEN).
func (v values) environment(environ []string) (errs []error) {
	byName := map[string]Setting{}
	names := []string{envConfig}
	for _, s := range settings {
		if s.Env != "" {
			byName[s.Env] = s
			names = append(names, s.Env)
		}
	}
	for _, variable := range environ {
		name, text, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envConfig {
			continue
		}
		o := origin{name: name, layer: fromEnvironment}
		s, ok := byName[name]
		switch {
		case !ok && !isServiceLink(name, text):
			errs = append(errs, unknownVariable(o, names))
		case ok && (text != "" || s.optional && s.Default != ""):
			v[s.Key] = given{text: text, origin: o}
		}
	}
	return errs
}

func unknownVariable(o origin, names []string) error {
	if near := nearest(o.name, len(o.name)-len(envPrefix), names); near != "" {
		return mistake(o, "no such setting; did you mean %s?", near)
	}
	return mistake(o, "no such setting; known are %s", strings.Join(slices.Sorted(slices.Values(names)), ", "))
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
	if serviceHost.MatchString(name) {
		return true
	}
	suffix := servicePort.FindStringSubmatch(name)
	return suffix != nil && (suffix[1] != "" || strings.Contains(text, "://"))
}

// file returns the file to read and what named it.
func (s *Sources) file() (path string, o origin) {
	if s.File != "" {
		return s.File, origin{name: "--config", layer: fromFlag}
	}
	for _, variable := range s.Environ {
		if path, ok := strings.CutPrefix(variable, envConfig+"="); ok {
			return path, origin{name: envConfig, layer: fromEnvironment}
		}
	}
	return "", o
}
