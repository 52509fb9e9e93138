package config

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"vitrine/config/source"
	target "vitrine/proxy/notify/presets"
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

// mind is called with a group before it is decoded: what a preset says is below it.
func (d *decoder) mind(all []pair, key string, to any) {
	switch v := to.(type) {
	case *source.Part:
		*v = partNamed(d.parts, child(all, "name"))
	case *source.Paging: // what a preset says about another style means nothing
		if style := child(all, "style"); style != "" && style != v.Style {
			*v = source.Paging{}
		}
	case *source.Resource:
		d.parts = v.Parts
	case *source.Target:
		name, at := child(all, "preset"), d.places[key]
		if content, err := target.FS.ReadFile(name + ".yaml"); err == nil {
			_ = (&decoder{loader: d.loader, file: "preset " + name, bundled: true}).decode(content, key, v) // which is right
			d.places[key] = at
		}
	}
}

// short makes the list of one part of the path that is short for it.
func (d *decoder) short(r *source.Resource, key string) {
	at := d.places[key+".path"]
	if d.places[key+".parts"].file == d.file {
		d.refuse(key+".path", at.line, "want either this or parts, got both")
	}
	part := partNamed(d.parts, "")
	part.Path, r.Path = r.Path, ""
	r.Parts, at.name = []source.Part{part}, key+".parts[0].path"
	d.places[at.name], d.written[at.name] = at, d.written[key+".path"]
	delete(d.written, key+".path")
}

func partNamed(parts []source.Part, name string) source.Part {
	if i := slices.IndexFunc(parts, func(p source.Part) bool { return p.Name == name }); i >= 0 {
		return parts[i]
	}
	return source.Part{Name: name}
}
