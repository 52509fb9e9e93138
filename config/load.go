package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// parsing is an unfinished Config, with the texts it is made from. The Config does not keep these,
// since some are secrets.
type parsing struct {
	config Config
	given  values
}

// Load reads all layers and returns the configuration in effect. Its error joins every mistake
// found, each an [*Error]; the Config is then invalid.
func Load(sources Sources) (Config, error) {
	p := parsing{given: make(values, len(settings))}
	p.given.defaults()
	errs := p.given.file(sources)
	errs = append(errs, p.given.environment(sources.Environ)...)
	p.given.flags(sources.Flags)
	errs = append(errs, p.resolve()...)
	errs = append(errs, p.readContents()...)
	wrong := make(map[string]bool)
	for _, s := range settings {
		if err := p.set(s); err != nil {
			errs, wrong[s.Key] = append(errs, err), true
		}
	}
	errs = append(errs, incomplete(p.given)...)
	// A value that could not be parsed is reported already.
	if !wrong["listen"] && !wrong["admin.listen"] && !wrong["redis.url"] {
		errs = append(errs, collisions(&p.config, p.given)...)
	}
	if !wrong["admin.listen"] && !wrong["admin.token"] {
		errs = append(errs, exposed(&p.config, p.given)...)
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	p.config.origins = make(map[string]origin, len(p.given))
	for key, g := range p.given {
		p.config.origins[key] = g.origin
	}
	return p.config, nil
}

// resolve gives an unset setting that inherits the value and origin of the other, and decides
// between a value and its file: both in one place are a contradiction, otherwise the stronger layer
// wins.
func (p *parsing) resolve() (errs []error) {
	for _, s := range settings {
		if _, ok := p.given[s.Key]; !ok {
			p.given[s.Key] = p.given[s.inherits]
		}
		file, value := p.given[s.Key], p.given[s.contents]
		switch {
		case s.contents == "" || file.text == "" || value.layer == fromDefault || value.text == "" || value.layer < file.layer:
			continue
		case value.layer == file.layer:
			errs = append(errs, mistake(file.origin, "want either this or %s (%s), got both", value.name, value.place()))
		}
		p.given[s.Key] = given{origin: value.origin}
	}
	return errs
}

// readContents replaces the value of every setting that is in a file by the file's content. If that
// fails, the value becomes its default, so that one mistake is not reported twice.
func (p *parsing) readContents() (errs []error) {
	for _, s := range settings {
		file := p.given[s.Key]
		if s.contents == "" || file.text == "" {
			continue
		}
		target, _ := lookup(s.contents)
		text, err := readSecret(file.text)
		if err == nil {
			// The message about the content of the file names the file's setting.
			err = target.set(new(Config), given{text: text})
			if errors.Is(err, errUnsaid) {
				err = errors.New("the file does not contain " + target.Allowed())
			}
		}
		if err != nil {
			errs = append(errs, refuse(s, file, err))
			text = target.Default
		}
		p.given[s.contents] = given{text: text, origin: file.origin}
	}
	return errs
}

// secretLimit bounds a file with one value. 64 KiB is far more than any header or URL, and keeps a
// wrong path from filling memory.
const secretLimit = 64 << 10

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
	if g.found != "" {
		return refuse(s, g, errUnsaid)
	}
	err := s.set(&p.config, g)
	if err == nil || s.inherits != "" && g.origin == p.given[s.inherits].origin {
		return nil // a mistake is reported with its source
	}
	return refuse(s, g, err)
}
