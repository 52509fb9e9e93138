package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"vitrine/config"
	"vitrine/upstream/shape"
)

// completionCommand prints what a shell needs to complete vitrine's words.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"${enum}."`
}

// Help shows where to put it.
func (completionCommand) Help() string {
	return "What it prints asks vitrine itself for words, and so never falls behind it.\n\n" + examples(
		"source <(vitrine completion bash)",
		"vitrine completion bash > /etc/bash_completion.d/vitrine",
		"vitrine completion zsh > \"${fpath[1]}/_vitrine\"",
		"vitrine completion fish > ~/.config/fish/completions/vitrine.fish",
	)
}

var (
	//go:embed completion/vitrine.bash
	completionBash string
	//go:embed completion/vitrine.zsh
	completionZsh string
	//go:embed completion/vitrine.fish
	completionFish string
)

// Run prints the script.
func (c *completionCommand) Run(p program) error {
	script := map[string]string{"bash": completionBash, "zsh": completionZsh, "fish": completionFish}[c.Shell]
	_, err := io.WriteString(p.stdout, script)
	return err
}

// completeWord is the argument with which those scripts ask. It is no command of its own, since
// what follows it is half a command line.
const completeWord = "__complete"

// filesWord, alone on a line, has the shell complete names of files.
const filesWord = ":files"

// A candidate is a word that may stand where the cursor is.
type candidate struct{ word, help string }

// complete prints what the last of words may become, a candidate a line, with a tab before what it
// means.
func complete(w io.Writer, app *kong.Node, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	for _, c := range candidates(app, words) {
		if _, err := fmt.Fprintf(w, "%s\t%s\n", c.word, c.help); err != nil {
			return err
		}
	}
	return nil
}

// candidates walks the finished words down to the command that they name, and looks there for what
// the last one begins.
func candidates(app *kong.Node, words []string) []candidate {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "=" }) // bash splits there
	if len(words) == 0 {
		return nil
	}
	done, current := words[:len(words)-1], words[len(words)-1]
	node := app
	var arguments []string
	var waiting *kong.Flag // a flag that has yet to get its value
	for _, word := range done {
		switch {
		case waiting != nil:
			waiting = nil
		case strings.HasPrefix(word, "-"):
			if f := flagNamed(node, word); f != nil && !f.IsBool() {
				waiting = f
			}
		default:
			if child := childNamed(node, word); child != nil {
				node = child
			} else {
				arguments = append(arguments, word)
			}
		}
	}
	if name, begun, ok := strings.Cut(current, "="); ok && waiting == nil {
		if f := flagNamed(node, name); f != nil {
			return prefixed(valuesOf(f), begun, name+"=")
		}
	}
	switch {
	case waiting != nil:
		return prefixed(valuesOf(waiting), current, "")
	case strings.HasPrefix(current, "-"):
		return prefixed(flagsOf(node), current, "")
	default:
		return prefixed(wordsOf(node, arguments), current, "")
	}
}

// prefixed keeps the candidates that begin as said, and puts lead before each.
func prefixed(all []candidate, begun, lead string) []candidate {
	var out []candidate
	for _, c := range all {
		if c.word == filesWord {
			out = append(out, c)
		} else if strings.HasPrefix(c.word, begun) {
			out = append(out, candidate{lead + c.word, c.help})
		}
	}
	return out
}

// flags are those that may stand behind node: at the top also the flags of the command that runs
// when none is named.
func flags(node *kong.Node) []*kong.Flag {
	out := slices.Concat(node.AllFlags(true)...)
	if node.DefaultCmd != nil {
		out = append(out, node.DefaultCmd.Flags...)
	}
	return out
}

func flagNamed(node *kong.Node, word string) *kong.Flag {
	for _, f := range flags(node) {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

func childNamed(node *kong.Node, word string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == word {
			return child
		}
	}
	return nil
}

func flagsOf(node *kong.Node) []candidate {
	var out []candidate
	for _, f := range flags(node) {
		out = append(out, candidate{"--" + f.Name, f.Help})
	}
	return out
}

// wordsOf are the commands below node, or what its arguments may be.
func wordsOf(node *kong.Node, given []string) []candidate {
	var out []candidate
	for _, child := range node.Children {
		if !child.Hidden {
			out = append(out, candidate{child.Name, child.Help})
		}
	}
	for _, argument := range node.Positional {
		var words []string
		switch {
		case argument.Name == "resource":
			for _, r := range shape.Resources() {
				words = append(words, string(r))
			}
		case argument.Enum != "" && len(given) == 0:
			words = strings.Split(argument.Enum, ",")
		}
		for _, word := range words {
			if !slices.Contains(given, word) {
				out = append(out, candidate{word, ""})
			}
		}
	}
	return out
}

// valuesOf are what f may be given.
func valuesOf(f *kong.Flag) []candidate {
	var out []candidate
	for _, s := range config.Settings() {
		if s.Flag == f.Name {
			for _, word := range s.Words() {
				out = append(out, candidate{word, ""})
			}
		}
	}
	if f.Name == "config" || strings.HasSuffix(f.Name, "-file") {
		out = append(out, candidate{filesWord, ""})
	}
	return out
}
