package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"vitrine/config/source"
	bundled "vitrine/proxy/notify/presets"
)

// placeholders are the known ones, and what each needs of the target.
var placeholders = map[string]func(*source.Target) string{
	"resource": nil, "event": nil, "id": nil, "seq": nil, "etag": nil, "json": nil, "signature": nil,
	"zone":    func(t *source.Target) string { return t.Zone },
	"service": func(t *source.Target) string { return t.Service },
	"token":   func(t *source.Target) string { return t.Token },
	"secret":  func(t *source.Target) string { return t.Secret },
}

// targetEvents are all events, those of a cache first.
var targetEvents = []string{source.EventChanged, source.EventPurged, source.EventHeld, source.EventFailing, source.EventRecovered}

// targets decodes notify of the file at path.
func (c *Config) targets(v values, path string, environ []string) []error {
	d := decoder{reader: reader{environ: environ}, file: path, origins: c.origins}
	d.around = func(n *yaml.Node, key string, to any) (after func()) {
		t, ok := to.(*source.Target)
		if !ok {
			return func() {}
		}
		before := len(d.errs)
		d.targetPreset(n, key, t)
		return func() { d.target(n, key, t, before) }
	}
	s, _ := Lookup("notify")
	d.tree(c, s, v[s.Key].node)
	for i := range c.Notify {
		t := &c.Notify[i]
		t.Secrets = d.secrets
		if slices.ContainsFunc(c.Notify[:i], func(other source.Target) bool { return other.Name == t.Name && t.Name != "" }) {
			d.refuse(fmt.Sprintf("notify[%d].name", i), c.origins[fmt.Sprintf("notify[%d].name", i)].line, "want another name, got %q twice", t.Name)
		}
	}
	return d.errs
}

// targetPreset gives a target the keys of its preset.
func (d *decoder) targetPreset(n *yaml.Node, key string, to *source.Target) {
	named := child(n, "preset")
	if named == nil {
		return
	}
	content, err := bundled.FS.ReadFile(named.Value + ".yaml")
	if err != nil {
		d.refuse(key+".preset", named.Line, "want %s, got %q", presetNames(bundled.FS), named.Value)
		return
	}
	preset := decoder{file: "preset " + named.Value, origins: d.origins}
	if root, err := preset.root(content); err == nil && root != nil {
		preset.structure(root, key, reflect.ValueOf(to).Elem())
	}
}

// target reads the files of a target's secrets, and refuses what is not complete, unless there are
// more mistakes than before.
func (d *decoder) target(n *yaml.Node, key string, t *source.Target, before int) {
	refuse := func(wrong bool, name, format string, args ...any) {
		if wrong {
			d.refuse(key+"."+name, n.Line, format, args...)
		}
	}
	for _, held := range []struct {
		name, file string
		text       *string
	}{{"token", t.TokenFile, &t.Token}, {"secret", t.SecretFile, &t.Secret}} {
		if held.file == "" {
			continue
		}
		refuse(*held.text != "", held.name, "want either this or %s_file, got both", held.name)
		text, err := readSecret(held.file)
		if err == nil {
			err = checkHeader(text)
		}
		refuse(err != nil, held.name+"_file", "want a file that can be read and is not empty, got %q: %v", held.file, err)
		*held.text, d.secrets = text, append(d.secrets, text)
	}
	if len(d.errs) > before {
		return
	}
	refuse(t.Name == "", "name", "want %s, got nothing", rules["target's name"].allowed)
	refuse(t.URL == "", "url", "want %s, got nothing", rules["target's URL"].allowed)
	refuse(t.Method == "", "method", "want a method here, or a preset, got neither")
	if len(t.Events) == 0 {
		t.Events = targetEvents
		if t.Cache {
			t.Events = targetEvents[:2]
		}
	}
	for _, event := range t.Events {
		refuse(!slices.Contains(targetEvents, event), "events", "want %s, got %q", targetEvents, event)
	}
	texts := map[string]string{"path": t.Path, "body": t.Body}
	for name, value := range t.Headers {
		texts["headers."+name] = value
		again := slices.ContainsFunc(slices.Collect(maps.Keys(t.Headers)), func(other string) bool { return other < name && strings.EqualFold(other, name) })
		refuse(again, "headers", "want each header once, whatever the case of its letters, got %q twice", name)
		refuse(!headerName.MatchString(name) || checkHeader(value) != nil, "headers", "want names and values in printable ASCII, got those of %q", name)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for _, found := range placeholder.FindAllStringSubmatch(texts[name], -1) {
			value, known := placeholders[found[1]]
			refuse(!known, name, "there is no %s", found[0])
			refuse(known && value != nil && value(t) == "", found[1], "want a value, which %s needs for %s, got nothing", name, found[0])
		}
	}
}
