package main

import (
	"embed"
	"flag"
	"fmt"
	"io"
	"strings"
)

// helps has a file for each command: a line that says what it does, what else there is to know,
// examples after "Examples:", and, where they mean more than usually, "Exit codes:".
//
//go:embed help/*.txt
var helps embed.FS

// helpOf is the line of a command, and the rest.
func helpOf(name string) (does, more string) {
	text, _ := helps.ReadFile("help/" + name + ".txt") // which is there, as a test holds
	does, more, _ = strings.Cut(string(text), "\n")
	return does, strings.TrimSpace(more)
}

const exitCodes = "Exit codes: 0 done, 1 failed, 2 wrong use or configuration."

// overview prints vitrine --help.
func (p program) overview() error {
	var out strings.Builder
	does, _ := helpOf("vitrine")
	out.WriteString("Usage: vitrine [COMMAND] [flags]\n\n" + does + "\n\nCommands:\n")
	for _, c := range commands {
		does, _ := helpOf(c.name)
		fmt.Fprintf(&out, "  %-12s %s\n", c.name, does)
	}
	_, more := helpOf("vitrine")
	out.WriteString("\n" + more + "\n\n" + exitCodes + "\n")
	_, err := io.WriteString(p.stdout, out.String())
	return err
}

// help prints the help of a command with the flags f.
func (p program) help(c command, f *flag.FlagSet) error {
	does, more := helpOf(c.name)
	var out strings.Builder
	fmt.Fprintf(&out, "Usage: %s\n\n%s\n", strings.TrimSpace("vitrine "+c.name+" "+c.args)+" [flags]", does)
	about, examples, _ := strings.Cut(more, "Examples:\n")
	if about = strings.TrimSpace(about); about != "" {
		out.WriteString("\n" + about + "\n")
	}
	var own []string
	f.VisitAll(func(one *flag.Flag) {
		if one.Usage == "" { // a setting
			return
		}
		value, usage := flag.UnquoteUsage(one)
		if one.DefValue != "" && one.DefValue != "false" && one.DefValue != "0s" {
			usage += " (" + strings.TrimSuffix(one.DefValue, "0m0s") + ")"
		}
		own = append(own, fmt.Sprintf("  %-20s %s\n", strings.TrimSpace("--"+one.Name+" "+value), usage))
	})
	if len(own) > 0 {
		out.WriteString("\nFlags:\n" + strings.Join(own, ""))
	}
	examples, codes, special := strings.Cut(examples, "Exit codes:")
	out.WriteString("\nExamples:\n" + strings.TrimRight(examples, "\n") + "\n\n")
	if special {
		out.WriteString("Exit codes:" + strings.TrimRight(codes, "\n") + "\n")
	} else {
		out.WriteString(exitCodes + "\n")
	}
	if !c.isOffline {
		out.WriteString("\nSettings: --" + strings.Join(settingsFlags(), ", --") + ";\nall others in the file or the environment: VITRINE_..., docs/configuration.md.\n")
	}
	_, err := io.WriteString(p.stdout, out.String())
	return err
}
