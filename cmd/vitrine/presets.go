package main

import (
	"context"
	"flag"
	"strings"

	"vitrine/config"
	"vitrine/upstream/presets"
)

// preset is one of the program's own.
type preset struct {
	Name  string `json:"name"`
	About string `json:"about"` // the first sentence of its comment
}

// listPresets lists the presets, or prints one in the keys of the configuration file.
func listPresets(c *call, _ *flag.FlagSet) action {
	return func(context.Context) (any, error) {
		if len(c.args) > 0 {
			content, err := presets.FS.ReadFile(c.args[0] + ".yaml")
			if err != nil {
				return nil, wrongUse("preset (argument): want one of %s, got %q", strings.Join(config.Presets(), ", "), c.args[0])
			}
			return document(content), nil
		}
		var all []preset
		for _, name := range config.Presets() {
			content, _ := presets.FS.ReadFile(name + ".yaml") // it is in the program
			all = append(all, preset{name, about(content)})
		}
		return all, nil
	}
}

// about is the first sentence of the comment that content begins with.
func about(content []byte) string {
	var words []string
	for line := range strings.Lines(string(content)) {
		text, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		words = append(words, strings.Fields(text)...)
	}
	first, _, _ := strings.Cut(strings.Join(words, " "), ". ")
	return strings.TrimSuffix(first, ".")
}
