package config

import (
	"io/fs"
	"path/filepath"
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

func isPreset(name string) bool { return slices.Contains(presets, name) || isPresetFile(name) }

// preset decodes the preset, whose name is right. That of a file is relative to the configuration file.
func (l *loader) preset() {
	name := l.Upstream.Preset
	file, read := "preset "+name, func(string) ([]byte, error) { return bundled.FS.ReadFile(name + ".yaml") }
	if isPresetFile(name) {
		if file = name; l.File != "" && !filepath.IsAbs(name) {
			file = filepath.Join(filepath.Dir(l.File), name)
		}
		read = readFile
	}
	content, err := read(file)
	if err == nil {
		err = (&decoder{loader: l, file: file, bundled: !isPresetFile(name)}).decode(content, "upstream", &l.Upstream.Mapping)
	}
	if err != nil {
		l.add(l.Refuse("upstream.preset", cause(err)))
	}
}

// mind is called with a group before it is decoded, and returns what is decoded into it.
func (d *decoder) mind(all []pair, key string, to any) []pair {
	switch v := to.(type) {
	case *source.Part:
		*v = partNamed(d.parts, child(all, "name"))
	case *source.Paging: // what a preset says about another style means nothing
		if style := child(all, "style"); style != "" && style != v.Style {
			*v = source.Paging{}
		}
	case *source.Resource:
		return d.short(all, key)
	case *source.Target:
		d.targetPreset(child(all, "preset"), key, v)
	}
	return all
}

// short replaces path by the list of one part that it is short for.
func (d *decoder) short(all []pair, key string) []pair {
	at := slices.IndexFunc(all, func(p pair) bool { return p.name.Value == "path" })
	if at < 0 || isNull(all[at].value) {
		return all
	}
	path, parts := all[at], *all[at].name
	if slices.ContainsFunc(all, func(p pair) bool { return p.name.Value == "parts" }) {
		d.refuse(key+".path", path.name.Line, "want either this or parts, got both")
		return slices.Delete(all, at, at+1)
	}
	parts.Value = "parts"
	part := yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{path.name, path.value}, Line: path.name.Line}
	all[at] = pair{&parts, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{&part}, Line: path.name.Line}}
	return all
}

func partNamed(parts []source.Part, name string) source.Part {
	if i := slices.IndexFunc(parts, func(p source.Part) bool { return p.Name == name }); i >= 0 {
		return parts[i]
	}
	return source.Part{Name: name}
}
