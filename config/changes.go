package config

// A Change is a setting that has another value than before. Its texts hold no
// secret.
type Change struct {
	Key      string
	From, To string
	// Origin is where the new value comes from, as in [Config.Origin].
	Origin string
}

// Changes lists what differs from before in c, in the order of the table.
func (c Config) Changes(before Config) []Change {
	var out []Change
	for _, s := range settings {
		if s.text(&before) == s.text(&c) {
			continue
		}
		out = append(out, Change{
			Key:    s.Key,
			From:   given{Text: s.text(&before)}.show(s),
			To:     given{Text: s.text(&c)}.show(s),
			Origin: c.Origin(s.Key),
		})
	}
	return out
}
