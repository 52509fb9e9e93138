package config

import (
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vitrine/config/source"
	bundled "vitrine/upstream/presets"
)

// presets are the names of those in the program.
var presets = presetNames(bundled.FS)

// Presets are the names of the program's own presets.
func Presets() []string { return slices.Clone(presets) }

func presetNames(of fs.FS) (names []string) {
	files, _ := fs.Glob(of, "*.yaml") // a pattern that is right
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".yaml"))
	}
	return names
}

// isPresetFile reports whether the value of upstream.preset names a file.
func isPresetFile(name string) bool {
	return strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml")
}

// checkPreset allows the names of presets and of files.
func checkPreset(name string) error {
	if !slices.Contains(presets, name) && !isPresetFile(name) {
		return errUnsaid
	}
	return nil
}

// content decodes the preset, whose name is right, and over it what v has of the file at path.
func (c *Config) content(v values, path string, environ []string) []error {
	u := &c.Upstream
	name, read := "preset "+u.Preset, func(string) ([]byte, error) { return bundled.FS.ReadFile(u.Preset + ".yaml") }
	if isPresetFile(u.Preset) {
		name, read = u.Preset, func(path string) ([]byte, error) { return readFile(path, fileLimit) }
		if path != "" && !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
	}
	d := decoder{reader: reader{environ: environ}, file: name, origins: c.origins}
	content, err := read(name)
	if err == nil {
		err = d.preset(content, u)
	}
	if err != nil {
		return []error{c.Refuse("upstream.preset", cause(err))}
	}
	if len(d.errs) > 0 {
		return d.errs
	}
	c.trees["upstream.preset"] = tree{shown: string(content)}
	d = decoder{reader: reader{environ: environ}, file: path, origins: c.origins}
	for _, s := range settings {
		if s.Key != "notify" {
			d.tree(c, s, v[s.Key].node)
		}
	}
	u.Shared.Secrets = append(u.Shared.Secrets, d.secrets...)
	return d.errs
}

// tree decodes the value of a tree, if there is one.
func (d *decoder) tree(c *Config, s Setting, n *yaml.Node) {
	if n != nil && s.isTree() {
		d.masked = false
		d.value(n, s.Key, s.field(c), "")
		c.trees[s.Key] = tree{shown: canonical(n), hides: d.masked}
	}
}

// preset decodes a preset: a file with shared and resources.
func (d *decoder) preset(content []byte, to *Upstream) error {
	root, err := d.root(content)
	if err != nil {
		return err
	}
	if root != nil {
		trees := struct {
			Shared    source.Shared               `yaml:"shared"`
			Resources ByResource[source.Resource] `yaml:"resources"`
		}{to.Shared, to.Resources}
		d.structure(root, "upstream", reflect.ValueOf(&trees).Elem())
		to.Shared, to.Resources = trees.Shared, trees.Resources
		to.Shared.Secrets = append(to.Shared.Secrets, d.secrets...)
	}
	return nil
}
