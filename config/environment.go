package config

import (
	"regexp"
	"slices"
	"strings"
)

const (
	envPrefix = "VITRINE_"
	envConfig = "VITRINE_CONFIG"
)

// environment is the layer of the environment. An empty variable counts as unset, because Compose
// passes on unset variables as empty, except for settings with an empty value
// (VITRINE_ADMIN_LISTEN).
func environment(environ []string) (map[string]any, []error) {
	byName := map[string]Setting{}
	names := []string{envConfig}
	for _, s := range settings {
		if s.Env != "" {
			byName[s.Env] = s
			names = append(names, s.Env)
		}
	}
	values := make(map[string]any)
	var errs []error
	for _, variable := range environ {
		name, text, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envConfig {
			continue
		}
		g := given{Text: text, Origin: origin{Name: name, Layer: fromEnvironment}}
		s, ok := byName[name]
		switch {
		case !ok && !isServiceLink(name, text):
			errs = append(errs, unknownVariable(g, names))
		case ok && (text != "" || s.optional && s.Default != ""):
			values[s.Key] = g
		}
	}
	return values, errs
}

func unknownVariable(g given, names []string) error {
	if near := nearest(g.Origin.Name, len(g.Origin.Name)-len(envPrefix), names); near != "" {
		return mistake(g, "no such setting; did you mean "+near+"?")
	}
	known := slices.Sorted(slices.Values(names))
	return mistake(g, "no such setting; known are "+strings.Join(known, ", "))
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

// configFile returns the file to read and what named it.
func configFile(sources Sources) given {
	if sources.File != "" {
		return given{Text: sources.File, Origin: origin{Name: "--config", Layer: fromFlag}}
	}
	for _, variable := range sources.Environ {
		if path, ok := strings.CutPrefix(variable, envConfig+"="); ok {
			return given{Text: path, Origin: origin{Name: envConfig, Layer: fromEnvironment}}
		}
	}
	return given{}
}
