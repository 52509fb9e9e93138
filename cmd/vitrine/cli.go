package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"vitrine/config"
)

// A command is a word of the command line.
type command struct {
	name string
	args string // as the line of its usage has them
	// least and most are how many arguments it takes.
	least, most int
	// isOffline is true for a command that reads no configuration, isQuiet for one that prints no value.
	isOffline, isQuiet bool
	// define defines the flags of a call, and returns what runs it.
	define func(c *call, f *flag.FlagSet) action
}

// An action does the work of a command. It returns a value to print, also beside an error, or nil.
type action func(ctx context.Context) (value any, err error)

// call is a command as it was typed.
type call struct {
	program
	name  string
	args  []string
	given map[string]string // flags for settings
	json  bool
}

const many = 1 << 10

// commands are in the order of vitrine --help. The first is the default.
var commands = []command{
	{name: "serve", isQuiet: true, define: serve},
	{name: "check", define: check},
	{name: "status", define: status},
	{name: "purge", args: "[RESOURCE...]", most: many, define: purge},
	{name: "accept", args: "RESOURCE", least: 1, most: 1, define: accept},
	{name: "history", args: "[RESOURCE [VERSION]]", most: 2, define: history},
	{name: "restore", args: "RESOURCE VERSION|latest", least: 2, most: 2, define: restore},
	{name: "config", isQuiet: true, define: showConfig},
	{name: "presets", args: "[NAME]", most: 1, isOffline: true, define: listPresets},
	{name: "notify", args: "[NAME]", most: 1, define: notifyAll},
	{name: "healthcheck", isQuiet: true, define: healthcheck},
	{name: "sample-cms", isOffline: true, isQuiet: true, define: sampleCMS},
	{name: "version", isOffline: true, define: showVersion},
}

// run runs the command that args name until it is done or ctx ends. It returns the exit code.
func run(ctx context.Context, args []string, p program) int {
	name := commands[0].name
	if len(args) == 1 && slices.Contains([]string{"--help", "-help", "-h", "help"}, args[0]) {
		return exit(p.stderr, p.show("", overview(), false))
	} else if len(args) > 0 && (!strings.HasPrefix(args[0], "-") || args[0] == "--version") {
		name, args = strings.TrimPrefix(args[0], "--"), args[1:]
	}
	at := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	if at < 0 {
		return exit(p.stderr, wrongUse("there is no command %q; %s", name, cmp.Or(config.DidYouMean("", name, names()), "see vitrine --help")))
	}
	c, f := &call{program: p, name: name, given: make(map[string]string)}, flag.NewFlagSet(name, flag.ContinueOnError)
	run := commands[at].define(c, f)
	commands[at].share(c, f)
	switch err := c.parse(f, args, commands[at]); {
	case errors.Is(err, flag.ErrHelp):
		return exit(p.stderr, p.show("", help(commands[at], f), false))
	case err != nil:
		return exit(p.stderr, err)
	}
	value, err := run(ctx)
	if no := p.show(name, value, c.json); no != nil {
		err = cmp.Or(err, no)
	}
	return exit(p.stderr, err)
}

// redisTime is how long a command waits for Redis, which may send without end.
const redisTime = 8 * time.Second

// settingsFlags are the flags for settings of all commands that read the configuration.
func settingsFlags() []string {
	flags := []string{"config"}
	for _, s := range config.Settings() {
		if s.Flag != "" {
			flags = append(flags, s.Flag)
		}
	}
	return flags
}

// share defines the flags that commands have in common.
func (cmd command) share(c *call, f *flag.FlagSet) {
	if !cmd.isQuiet {
		f.BoolVar(&c.json, "json", false, "print the result as JSON")
	}
	if cmd.isOffline {
		return
	}
	for _, name := range settingsFlags() {
		f.Func(name, "", func(text string) error {
			c.given[name] = text
			return nil
		})
	}
}

// parse reads flags and arguments, which may be mixed.
func (c *call) parse(f *flag.FlagSet, args []string, cmd command) error {
	for len(args) > 0 {
		word := args[0]
		if args = args[1:]; !strings.HasPrefix(word, "-") {
			c.args = append(c.args, word)
			continue
		}
		name, value, inline := strings.Cut(strings.TrimLeft(word, "-"), "=")
		one := f.Lookup(name)
		switch {
		case name == "help" || name == "h":
			return flag.ErrHelp
		case one == nil:
			return wrongUse("there is no flag --%s; %s", name, cmp.Or(config.DidYouMean("--", name, flagsOf(f)), "see vitrine "+cmd.name+" --help"))
		case inline:
		case one.DefValue == "false":
			value = "true"
		case len(args) == 0:
			return wrongUse("--%s (flag): want a value, got nothing", name)
		default:
			value, args = args[0], args[1:]
		}
		if f.Set(name, value) != nil {
			return wrongUse("--%s (flag): want a duration such as 30m, or true or false, got %q", name, value)
		}
	}
	switch n := len(c.args); {
	case n > cmd.most:
		return wrongUse("unexpected argument %q; see vitrine %s --help", c.args[cmd.most], cmd.name)
	case n < cmd.least:
		return wrongUse("want vitrine %s %s, got %d arguments", cmd.name, cmd.args, n)
	}
	return nil
}

func flagsOf(f *flag.FlagSet) (all []string) {
	f.VisitAll(func(one *flag.Flag) { all = append(all, one.Name) })
	return all
}

func names() (all []string) {
	for _, c := range commands {
		all = append(all, c.name)
	}
	return all
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func wrongUse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
