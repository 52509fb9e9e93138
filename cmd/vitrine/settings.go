package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"vitrine/config"
)

// settingsFlags are the flags of a command that reads the configuration, made from config's table.
type settingsFlags struct {
	File string `name:"config" placeholder:"FILE" help:"YAML file with settings. [VITRINE_CONFIG]"`
	kong.Plugins
}

// fromTable makes the flags. It is called before the command line is parsed.
func (f *settingsFlags) fromTable() {
	var fields []reflect.StructField
	for _, s := range config.Settings() {
		if s.Flag == "" {
			continue
		}
		help := strings.ReplaceAll(s.Doc, "`", "")
		help = strings.ToUpper(help[:1]) + help[1:] + ". [" + s.Env + "]"
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("Setting%d", len(fields)),
			Type: reflect.TypeFor[*string](),
			Tag: reflect.StructTag(fmt.Sprintf(`name:%q placeholder:%q group:"Settings" help:%q`,
				s.Flag, placeholder(s), help)),
		})
	}
	f.Plugins = kong.Plugins{reflect.New(reflect.StructOf(fields)).Interface()}
}

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

// load reads the configuration with the given flags.
func (f *settingsFlags) load(p program) (config.Config, error) {
	given := map[string]string{}
	values := reflect.ValueOf(f.Plugins[0]).Elem()
	for i := range values.NumField() {
		if text, ok := values.Field(i).Interface().(*string); ok && text != nil {
			given[values.Type().Field(i).Tag.Get("name")] = *text
		}
	}
	return config.Load(config.Sources{Flags: given, Environ: p.environ, File: f.File})
}
