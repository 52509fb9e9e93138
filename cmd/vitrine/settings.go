package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"vitrine/cache"
	"vitrine/cmd/vitrine/service"
	"vitrine/config"
)

// settingsFlags are the flags of a command that reads the configuration, made from config's table.
type settingsFlags struct {
	File string `name:"config" placeholder:"FILE" help:"YAML file with settings. [VITRINE_CONFIG]"`
	kong.Plugins
}

// settingFlag is the text of a flag, if it was given.
type settingFlag struct {
	text  string
	given bool
}

// Decode implements kong.MapperValue.
func (f *settingFlag) Decode(ctx *kong.DecodeContext) error {
	if token := ctx.Scan.Peek(); !token.IsValue() {
		return errors.New("needs a value")
	}
	f.given = true
	return ctx.Scan.PopValueInto("text", &f.text)
}

// fromTable makes the flags. It is called before the command line is parsed.
func (f *settingsFlags) fromTable() {
	f.Plugins = kong.Plugins{reflect.New(settingsType()).Interface()}
}

// settingsType is a struct with a flag for each setting that has one.
var settingsType = sync.OnceValue(func() reflect.Type {
	var fields []reflect.StructField
	for _, s := range config.Settings() {
		if s.Flag == "" {
			continue
		}
		help := strings.ReplaceAll(s.Doc, "`", "")
		help = strings.ToUpper(help[:1]) + help[1:] + ". [" + s.Env + "]"
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("Setting%d", len(fields)),
			Type: reflect.TypeFor[settingFlag](),
			Tag: reflect.StructTag(fmt.Sprintf(`name:%q placeholder:%q group:"Settings" help:%q`,
				s.Flag, placeholder(s), help)),
		})
	}
	return reflect.StructOf(fields)
})

// placeholder shows the default, if there is one.
func placeholder(s config.Setting) string {
	switch {
	case s.Default != "":
		return s.Default
	case strings.HasSuffix(s.Flag, "-file"):
		return "FILE"
	default:
		return "VALUE"
	}
}

func (f *settingsFlags) sources(p program) config.Sources {
	given := map[string]string{}
	values := reflect.ValueOf(f.Plugins[0]).Elem()
	for i := range values.NumField() {
		if flag, ok := values.Field(i).Interface().(settingFlag); ok && flag.given {
			given[values.Type().Field(i).Tag.Get("name")] = flag.text
		}
	}
	return config.Sources{Flags: given, Environ: p.environ, File: f.File}
}

// load reads the configuration of serve.
func (f *settingsFlags) load(p program) (config.Config, error) {
	return config.Load(f.sources(p))
}

// everySetting is the beginning of all keys.
const everySetting = ""

// find reads the configuration of any other command, which needs only the settings whose keys begin
// with these: mistakes about others are warnings, and reported as such. Without a configuration of
// its own it is that of the installed service, which is named on stderr.
func (f *settingsFlags) find(p program, keys ...string) (cfg config.Config, warned bool, err error) {
	sources := f.sources(p)
	if p.installed != "" && sources.Empty() {
		if err := useInstalled(&sources, p); err != nil {
			return cfg, false, err
		}
	}
	cfg, ignored, err := config.LoadOwn(sources, keys...)
	if err != nil || ignored == nil {
		return cfg, false, err
	}
	for line := range strings.Lines(ignored.Error()) {
		_, _ = fmt.Fprintln(p.stderr, "vitrine: warning:", strings.TrimSpace(line))
	}
	return cfg, true, nil
}

// openStore opens the store that is configured, for a command that needs no other setting.
func (f *settingsFlags) openStore(ctx context.Context, p program) (config.Config, *cache.Store, error) {
	cfg, warned, err := f.find(p, "redis.")
	if err == nil && warned && cfg.Origin("redis.url") == "default" {
		err = cfg.Refuse("redis.url", errors.New("it may be what the mistake above is about"))
	}
	if err != nil {
		return cfg, nil, err
	}
	store, err := service.OpenStore(ctx, cfg)
	return cfg, store, err
}

// useInstalled adds the file and the environment of the installed service, if there is one.
func useInstalled(to *config.Sources, p program) error {
	file, env := filepath.Join(p.installed, "vitrine.yaml"), filepath.Join(p.installed, "vitrine.env")
	var used []string
	for _, path := range []string{file, env} {
		content, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return &usageError{fmt.Errorf("%w: the installed service's configuration cannot be read; use sudo, or name another file with --config", err)}
		case path == file:
			to.File = file
		default:
			to.Environ = slices.Concat(to.Environ, variables(content))
		}
		used = append(used, path)
	}
	if len(used) > 0 {
		_, _ = fmt.Fprintln(p.stderr, "vitrine: using "+strings.Join(used, " and "))
	}
	return nil
}

// variables reads the form of systemd's EnvironmentFile (systemd.exec(5)): NAME=VALUE, also quoted,
// and comments.
func variables(content []byte) (out []string) {
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.ContainsAny(line[:1], "#;") {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n > 1 && value[0] == value[n-1] && strings.ContainsAny(value[:1], `"'`) {
			value = value[1 : n-1]
		}
		out = append(out, strings.TrimSpace(name)+"="+value)
	}
	return out
}
