package main

import (
	"fmt"
	"strings"

	"vitrine/config"
	"vitrine/upstream/presets"
)

// presetsCommand shows the presets, in the keys of the configuration file.
type presetsCommand struct {
	Name string `arg:"" optional:"" help:"The preset to print."`
}

// Run lists the presets, each with the first sentence of its comment, or prints one.
func (c *presetsCommand) Run(p program) error {
	if c.Name != "" {
		content, err := presets.FS.ReadFile(c.Name + ".yaml")
		if err != nil {
			return &usageError{fmt.Errorf("preset (argument): want one of %s, got %q", strings.Join(config.Presets(), ", "), c.Name)}
		}
		_, err = p.stdout.Write(content)
		return err
	}
	for _, name := range config.Presets() {
		content, _ := presets.FS.ReadFile(name + ".yaml") // it is in the program
		if _, err := fmt.Fprintf(p.stdout, "%-11s %s\n", name, about(content)); err != nil {
			return err
		}
	}
	return nil
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
