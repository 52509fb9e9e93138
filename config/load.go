package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"
)

// Sources is where values are looked for, weakest last.
type Sources struct {
	// Flags holds the flags that were given, by name without dashes.
	Flags map[string]string
	// Environ is the environment in the form of os.Environ. Only names that
	// begin with VITRINE_ are looked at.
	Environ []string
	// File is the YAML file. Empty: the one that VITRINE_CONFIG names in
	// Environ, and without that none.
	File string
}

// layer is one of the places a value comes from, by rising strength.
type layer int

const (
	fromDefault layer = iota
	fromFile
	fromEnvironment
	fromFlag
)

// origin is where a value came from. Its fields are exported for koanf, too.
type origin struct {
	// Name is the setting as it is called there: VITRINE_TTL, --ttl, ttl.
	Name string
	// File is the file and line, vitrine.yaml:12, of what came from one.
	File string

	Layer layer
}

// String says it for people: "environment VITRINE_TTL".
func (o origin) String() string {
	switch o.Layer {
	case fromFile:
		return o.File
	case fromEnvironment, fromFlag:
		return o.place() + " " + o.Name
	default:
		return o.place()
	}
}

// place is the part in brackets of an error.
func (o origin) place() string {
	switch o.Layer {
	case fromFile:
		return o.File
	case fromEnvironment:
		return "environment"
	case fromFlag:
		return "flag"
	default:
		return "default"
	}
}

// given is a value as text, before it means anything, and its origin. Its
// fields are exported because koanf copies what it holds.
type given struct {
	Text   string
	Found  string     // what to show in an error when Text was not what was written
	Node   *yaml.Node // of parts
	Origin origin
}

// show writes the value for an error message.
func (g given) show(s Setting) string {
	switch {
	case g.Found != "":
		return g.Found
	case g.Text == "":
		return "nothing"
	case s.isHidden():
		return "a value that is not shown"
	case s.isParts():
		shown, _ := Parts{YAML: g.Text}.masked()
		return fmt.Sprintf("%q", shown)
	default:
		return fmt.Sprintf("%q", maskURL(g.Text))
	}
}

// Load reads all layers and returns what is in effect. Its error joins every
// mistake found, each an [*Error]; the Config is then of no use.
func Load(sources Sources) (Config, error) {
	layers := koanf.New(".")
	var errs []error

	merge := func(values map[string]any) {
		if err := layers.Load(confmap.Provider(values, "."), nil); err != nil {
			errs = append(errs, err)
		}
	}
	merge(defaults())
	errs = append(errs, loadFile(layers, sources)...)
	variables, mistakes := environment(sources.Environ)
	errs = append(errs, mistakes...)
	merge(variables)
	merge(flags(sources.Flags))

	p := parsing{given: make(map[string]given, len(settings))}
	errs = append(errs, p.take(layers)...)
	errs = append(errs, p.readContents()...)
	good := make(map[string]bool, len(settings))
	for _, s := range settings {
		if err := p.set(s); err != nil {
			errs = append(errs, err)
			continue
		}
		good[s.Key] = true
	}
	// What could not be parsed cannot collide, and is reported already.
	if good["listen"] && good["admin.listen"] && good["redis.url"] {
		errs = append(errs, p.collisions()...)
	}
	errs = append(errs, p.incomplete()...)
	if good["admin.listen"] && good["admin.token"] {
		errs = append(errs, p.exposed()...)
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	p.config.origins = make(map[string]origin, len(p.given))
	for key, g := range p.given {
		p.config.origins[key] = g.Origin
	}
	return p.config, nil
}

// parsing is a Config on its way, beside the texts that it is made from. The
// Config does not keep these, as some are secrets.
type parsing struct {
	config Config
	given  map[string]given // by key
}

// defaults is the layer of the table itself.
func defaults() map[string]any {
	values := make(map[string]any, len(settings))
	for _, s := range settings {
		if s.inherits == "" {
			values[s.Key] = given{Text: s.Default, Origin: origin{Name: s.Key, Layer: fromDefault}}
		}
	}
	return values
}

// flags is the layer of the command line.
func flags(byName map[string]string) map[string]any {
	values := make(map[string]any)
	for _, s := range settings {
		if text, ok := byName[s.Flag]; ok && s.Flag != "" {
			values[s.Key] = given{Text: text, Origin: origin{Name: "--" + s.Flag, Layer: fromFlag}}
		}
	}
	return values
}

// take notes for every setting what the strongest layer gave. A setting that
// inherits and was not given takes the value and the origin of the other.
func (p *parsing) take(layers *koanf.Koanf) []error {
	for _, s := range settings {
		if g, ok := layers.Get(s.Key).(given); ok {
			p.given[s.Key] = g
		} else if s.inherits != "" {
			p.given[s.Key] = p.given[s.inherits]
		}
	}
	// A value and a file that holds it are two ways to say one thing: said
	// in one place they contradict each other, otherwise the stronger counts.
	var errs []error
	for _, s := range settings {
		if s.contents == "" || p.given[s.Key].Text == "" {
			continue
		}
		file, value := p.given[s.Key], p.given[s.contents]
		switch {
		case value.Origin.Layer == fromDefault || value.Text == "" || value.Origin.Layer < file.Origin.Layer:
		case value.Origin.Layer > file.Origin.Layer:
			p.given[s.Key] = given{Origin: value.Origin}
		default:
			errs = append(errs, mistake(file, fmt.Sprintf("want either this or %s (%s), got both",
				value.Origin.Name, value.Origin.place())))
			p.given[s.Key] = given{Origin: file.Origin}
		}
	}
	return errs
}

// secretLimit bounds a file that holds one value. 64 KiB is far more than any
// header or address, and keeps a wrong path from filling memory.
const secretLimit = 64 << 10

// readContents replaces the value of every setting that is in a file by what
// that file says. Where it cannot, the value becomes its default, so that the
// one mistake is not reported twice.
func (p *parsing) readContents() []error {
	var errs []error
	for _, s := range settings {
		file := p.given[s.Key]
		if s.contents == "" || file.Text == "" {
			continue
		}
		target, _ := lookup(s.contents)
		text, err := readSecret(file.Text)
		if err == nil {
			// The message about what is in the file names the file's setting.
			err = target.set(new(Config), text)
			if errors.Is(err, errUnsaid) {
				err = errors.New("it holds something else than " + target.Allowed())
			}
		}
		if err != nil {
			errs = append(errs, refuse(s, file, err.Error()))
			text = target.Default
		}
		p.given[s.contents] = given{Text: text, Origin: file.Origin}
	}
	return errs
}

func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", cause(err)
	case info.IsDir():
		return "", errors.New("it is a folder")
	case info.Size() > secretLimit:
		return "", fmt.Errorf("it has more than %s", Size(secretLimit))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", cause(err)
	}
	text := strings.TrimSpace(string(content))
	if text == "" {
		return "", errors.New("it is empty")
	}
	return text, nil
}

// set parses the value of s.
func (p *parsing) set(s Setting) error {
	g := p.given[s.Key]
	if s.inherits != "" && g.Origin == p.given[s.inherits].Origin {
		// The mistake, if there is one, is reported where it was made.
		_ = s.set(&p.config, g.Text)
		return nil
	}
	if g.Found != "" {
		return refuse(s, g, "")
	}
	if parts, ok := s.field(&p.config).(*Parts); ok {
		parts.Node = g.Node
	}
	switch err := s.set(&p.config, g.Text); {
	case err == nil:
		return nil
	case errors.Is(err, errUnsaid):
		return refuse(s, g, "")
	default:
		return refuse(s, g, err.Error())
	}
}
