package main

import (
	"cmp"
	"embed"
	"flag"
	"strings"
)

// helps has a file for each command: a line that says what it does, what else there is to know,
// examples after "Examples:", and, where they mean more than usually, "Exit codes:".
//
//go:embed help/*.txt
var helps embed.FS

// helpPage is what a command prints with --help, or vitrine without one.
type helpPage struct {
	Name, Args, Does, About, Examples, Codes string
	Commands                                 []helpPage
	Flags                                    []struct{ Name, Usage string } // the command's own
	Settings                                 []string                       // flags of settings
}

func (helpPage) view() string { return "help" }

// helpOf is the page of a command, but for its flags.
func helpOf(c command) helpPage {
	text, _ := helps.ReadFile("help/" + cmp.Or(c.name, "vitrine") + ".txt") // which is there, as a test holds
	does, more, _ := strings.Cut(string(text), "\n")
	about, more, _ := strings.Cut(more, "Examples:\n")
	examples, codes, _ := strings.Cut(more, "Exit codes: ")
	return helpPage{
		Name: c.name, Args: c.args, Does: does, About: strings.TrimSpace(about), Examples: strings.TrimRight(examples, "\n"),
		Codes: cmp.Or(strings.TrimSpace(codes), "0 done, 1 failed, 2 wrong use or configuration."),
	}
}

// overview is vitrine --help.
func overview() helpPage {
	page := helpOf(command{})
	for _, c := range commands {
		page.Commands = append(page.Commands, helpOf(c))
	}
	return page
}

// help is the help of a command with the flags f.
func help(c command, f *flag.FlagSet) helpPage {
	page := helpOf(c)
	f.VisitAll(func(one *flag.Flag) {
		if one.Usage == "" { // a setting
			return
		}
		value, usage := flag.UnquoteUsage(one)
		if one.DefValue != "" && one.DefValue != "false" && one.DefValue != "0s" {
			usage += " (" + strings.TrimSuffix(one.DefValue, "0m0s") + ")"
		}
		page.Flags = append(page.Flags, struct{ Name, Usage string }{strings.TrimSpace("--" + one.Name + " " + value), usage})
	})
	if !c.isOffline {
		page.Settings = settingsFlags()
	}
	return page
}
