package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"vitrine/config/source"
	target "vitrine/proxy/notify/presets"
)

var (
	targetPresets = presetNames(target.FS)
	// targetEvents are all events, those of a cache first.
	targetEvents = []string{source.EventChanged, source.EventPurged, source.EventHeld, source.EventReleased, source.EventFailing, source.EventRecovered}
	// placeholder is one in a target's path or header fields; ofEvent are those of each target.
	placeholder = regexp.MustCompile(`\{([a-z]+)\}`)
	ofEvent     = []string{"resource", "event", "id", "seq", "etag", "signature"}
)

// endpoints reads the files of secrets, and refuses what is not complete.
func (l *loader) endpoints() {
	for i := range l.Notify {
		t, key := &l.Notify[i], fmt.Sprintf("notify[%d]", i)
		l.secretFile(key+".token", reflect.ValueOf(&t.Token).Elem(), &t.TokenFile, `is:"header"`)
		l.secretFile(key+".secret", reflect.ValueOf(&t.Secret).Elem(), &t.SecretFile, `is:"header"`)
		refuse := func(wrong bool, name, format string, args ...any) {
			if wrong && !l.wrong(key+"."+name) {
				at := l.places[key]
				at.name = key + "." + name
				l.add(mistake(at.name, at, format, args...))
			}
		}
		refuse(t.Name == "", "name", "want %s, got nothing", rules["target's name"].allowed)
		refuse(t.URL.Reveal() == "", "url", "want %s, got nothing", rules["target's URL"].allowed)
		refuse(t.Method == "" && !l.wrong(key+".preset"), "method", "want a method here, or a preset, got neither")
		twice := slices.ContainsFunc(l.Notify[:i], func(other source.Target) bool { return other.Name == t.Name && t.Name != "" })
		refuse(twice, "name", "want another name, got %q twice", t.Name)
		if len(t.Events) == 0 && t.Cache {
			t.Events = targetEvents[:2]
		} else if len(t.Events) == 0 {
			t.Events = targetEvents
		}
		texts := map[string]string{"path": t.Path.Reveal()}
		for name, value := range t.Headers {
			texts["headers."+name] = value
		}
		values := map[string]string{"zone": t.Zone, "service": t.Service, "token": t.Token.Reveal(), "secret": t.Secret.Reveal()}
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			for _, found := range placeholder.FindAllStringSubmatch(texts[name], -1) {
				value, ofTarget := values[found[1]]
				refuse(!ofTarget && !slices.Contains(ofEvent, found[1]), name, "there is no %s", found[0])
				refuse(ofTarget && value == "", found[1], "want a value, which %s needs for %s, got nothing", name, found[0])
			}
		}
		t.Secrets = append(slices.Clip(l.secrets), t.Token.Reveal(), t.Secret.Reveal())
	}
}
