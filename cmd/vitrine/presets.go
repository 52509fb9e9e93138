package main

import (
	"fmt"
	"io/fs"
	"strings"

	"vitrine/upstream/presets"
)

// presetsCommand shows the presets, in the keys of the configuration file.
type presetsCommand struct {
	Name string `arg:"" optional:"" help:"The preset to print."`
}

// Run lists the presets, each with the first sentence of its comment, or prints one.
func (c *presetsCommand) Run(p program) error {
	files, err := fs.Glob(presets.FS, "*.yaml")
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		content, err := fs.ReadFile(presets.FS, file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(file, ".yaml")
		names = append(names, name)
		switch c.Name {
		case "":
			_, err = fmt.Fprintf(p.stdout, "%-11s %s\n", name, about(content))
		case name:
			_, err = p.stdout.Write(content)
			return err
		}
		if err != nil {
			return err
		}
	}
	if c.Name == "" {
		return nil
	}
	return &usageError{fmt.Errorf("preset (argument): want one of %s, got %q", strings.Join(names, ", "), c.Name)}
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
