package config

import (
	"strconv"
	"strings"
)

// Origin returns the origin of the value of the setting called key: "default", "environment
// VITRINE_TTL", "flag --ttl", "vitrine.yaml:12". It is empty for an unknown key.
func (c Config) Origin(key string) string {
	o, ok := c.origins[key]
	if !ok {
		return ""
	}
	return o.String()
}

// Refuse returns an error of Load's kind about the value of the setting called key, for a problem
// that is found only later, when the address or file is opened.
func (c Config) Refuse(key string, why error) error {
	s, ok := lookup(key)
	if !ok {
		return why
	}
	return refuse(s, given{text: s.text(&c), origin: c.origins[key]}, why)
}

// RefuseBelow is Refuse for a value below a group of settings, by its path there,
// upstream.resources.banners and parts[0].map, and its line in the file; 0 is that of the setting.
func (c Config) RefuseBelow(group, path string, line int, why error) error {
	name, _, _ := strings.Cut(path, "[")
	name, _, _ = strings.Cut(name, ".")
	o := c.origins[group+"."+name]
	o.name = group + "." + path
	if file := strings.LastIndexByte(o.file, ':'); line > 0 && file >= 0 {
		o.file = o.file[:file+1] + strconv.Itoa(line)
	}
	return mistake(o, "%s", why)
}

// A Change is a setting whose value changed. Its texts contain no secret.
type Change struct {
	Key      string
	From, To string
	// Origin is the origin of the new value, as in [Config.Origin].
	Origin string
}

// Changes lists the settings of c that differ from before, in the order of the table.
func (c Config) Changes(before Config) []Change {
	var out []Change
	for _, s := range settings {
		if from, to := s.text(&before), s.text(&c); from != to {
			out = append(out, Change{Key: s.Key, From: s.show(given{text: from}), To: s.show(given{text: to}), Origin: c.Origin(s.Key)})
		}
	}
	return out
}
