package config

import (
	"path/filepath"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"vitrine/config/source"
	bundled "vitrine/upstream/presets"
)

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
	d.around = d.part
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
	d.around = d.part
	for _, s := range settings {
		if s.Key != "notify" {
			d.tree(c, s, v[s.Key].node)
		}
	}
	u.Shared.Secrets = append(u.Shared.Secrets, d.secrets...)
	return d.errs
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

// part is a decoder's around. A part of a preset has the keys that the operator's part of that name
// has not.
func (d *decoder) part(n *yaml.Node, key string, to any) (after func()) {
	switch v := to.(type) {
	case *source.Paging: // what a preset says about another style means nothing
		if style := child(n, "style"); style != nil && style.Value != v.Style {
			*v = source.Paging{}
		}
	case *[]source.Part:
		var beside []source.Part
		for _, item := range n.Content {
			name := ""
			if named := child(item, "name"); named != nil {
				name = named.Value
			}
			beside = append(beside, partNamed(*v, name))
		}
		*v = beside
	case *source.Resource:
		preset := slices.Clone(v.Parts)
		return func() { d.short(n, key, v, preset) }
	}
	return func() {}
}

// short makes the one part that path is short for.
func (d *decoder) short(n *yaml.Node, key string, r *source.Resource, preset []source.Part) {
	path := child(n, "path")
	if path == nil {
		return
	}
	if child(n, "parts") != nil {
		d.refuse(key+".path", path.Line, "want either this or parts, got both")
	}
	part := partNamed(preset, "")
	part.Path, r.Path = r.Path, ""
	r.Parts = []source.Part{part}
	d.origins[key+".parts[0].path"] = d.origins[key+".path"]
}

func partNamed(parts []source.Part, name string) source.Part {
	if i := slices.IndexFunc(parts, func(p source.Part) bool { return p.Name == name }); i >= 0 {
		return parts[i]
	}
	return source.Part{Name: name}
}
