// Command man makes the manual page vitrine.1 of what a vitrine says of itself with --help.
//
//	man -version 1.2.3 -date 2026-11-21T00:00:00Z VITRINE >vitrine.1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "version of the release")
	date := flag.String("date", "", "time of the release, as RFC 3339 has it")
	flag.Parse()
	page, err := page(*version, *date, flag.Arg(0))
	if err == nil {
		_, err = os.Stdout.WriteString(page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func page(version, date, program string) (string, error) {
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return "", err
	}
	whole, err := help(program)
	if err != nil {
		return "", err
	}
	_, about, _ := strings.Cut(whole, "\n\n")
	about, _, _ = strings.Cut(about, "\n\n")
	_, list, found := strings.Cut(whole, "\nCommands:\n")
	commands := regexp.MustCompile(`(?m)^  ([a-z-]+) `).FindAllStringSubmatch(list, -1)
	if !found || len(commands) == 0 {
		return "", errors.New("--help lists no commands")
	}

	var b strings.Builder
	fmt.Fprintf(&b, ".TH VITRINE 1 %s \"vitrine %s\" \"User Commands\"\n", at.Format(time.DateOnly), version)
	b.WriteString(".SH NAME\nvitrine \\- caching proxy in front of a gallery's CMS\n")
	b.WriteString(".SH SYNOPSIS\n.B vitrine\n.RI [ command ]\n.RI [ flag ...]\n.SH DESCRIPTION\n" + escape(about) + "\n")
	var settings string
	for i, command := range commands {
		text, err := help(program, command[1])
		if err != nil {
			return "", err
		}
		// Most commands take the same settings, which one section lists for all.
		text, shared, _ := strings.Cut(text, "\nSettings\n")
		if settings == "" {
			settings = shared
		}
		if i == 0 {
			b.WriteString(".SH COMMANDS\n")
		}
		_, text, _ = strings.Cut(text, "\n\n") // the line of its usage
		fmt.Fprintf(&b, ".SS \"vitrine %s\"\n", escape(command[1]))
		verbatim(&b, text)
	}
	b.WriteString(".SH SETTINGS\nA flag overrides the environment variable in brackets, that the file, and that the default.\n")
	verbatim(&b, settings)
	b.WriteString(".SH FILES\n.TP\n.I /etc/vitrine/vitrine.yaml\nsettings of the installed service\n" +
		".TP\n.I /etc/vitrine/vitrine.env\nits secrets, as VITRINE_ lines\n" +
		".TP\n.I /usr/share/doc/vitrine/docs\nwhat operators and developers need to know; operations.md when something is wrong\n" +
		".SH \"EXIT STATUS\"\n0: done; 1: failed; 2: wrong use or configuration.\n")
	return b.String(), nil
}

// help is what the program prints with --help, on a wide terminal and without settings of its own.
func help(program string, args ...string) (string, error) {
	command := exec.CommandContext(context.Background(), program, append(args, "--help")...) //nolint:gosec // the release that this page is of
	command.Env = []string{"COLUMNS=100"}
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return string(out), nil
}

// verbatim writes text as it stands, in lines as they are.
func verbatim(b *strings.Builder, text string) {
	b.WriteString(".nf\n" + escape(strings.Trim(text, "\n")) + "\n.fi\n")
}

// escape lets roff print text as it is: a backslash begins an escape, a point or an apostrophe a
// request at the start of a line, and a hyphen that stands for itself is one in a command.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	return regexp.MustCompile(`(?m)^([.'])`).ReplaceAllString(text, `\&$1`)
}
