package config

import (
	"slices"
	"strings"
)

// A Change is a setting that has another value than before. Its texts hold no
// secret.
type Change struct {
	Key      string
	From, To string
	// Origin is where the new value comes from, as in [Config.Origin].
	Origin string
	// Restart says that only a restart brings it about.
	Restart bool
}

// running are the settings that may change while the program runs, and the
// groups of which all may. What is bound, opened or sized at the start is not
// among them.
var running = []string{
	"admin.token", "admin.token_file", "upstream", "ttl", "stale_while_revalidate", "stale_if_error",
	"http", "cors", "log.level", "shutdown",
}

// IsIn reports whether the setting called key is group, or in it.
func IsIn(group, key string) bool { return key == group || strings.HasPrefix(key, group+".") }

// Changes lists what differs from before in c, in the order of the table.
func (c Config) Changes(before Config) []Change {
	var out []Change
	for _, s := range settings {
		if s.text(&before) == s.text(&c) {
			continue
		}
		out = append(out, Change{
			Key:     s.Key,
			From:    given{Text: s.text(&before)}.show(s),
			To:      given{Text: s.text(&c)}.show(s),
			Origin:  c.Origin(s.Key),
			Restart: !slices.ContainsFunc(running, func(r string) bool { return IsIn(r, s.Key) }),
		})
	}
	return out
}
