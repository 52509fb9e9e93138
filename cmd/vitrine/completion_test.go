package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// completed are the words offered for a command line, the last of which is being typed.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	var out bytes.Buffer
	if code := run(t.Context(), append([]string{completeWord}, words...), program{stdout: &out, stderr: t.Output()}); code != exitDone {
		t.Fatalf("%v: exit code %d", words, code)
	}
	var found []string
	for line := range strings.Lines(out.String()) {
		word, _, _ := strings.Cut(line, "\t")
		found = append(found, word)
	}
	return found
}

func TestACommandLineIsCompletedWithWhatMayStandThere(t *testing.T) {
	for _, test := range []struct {
		words []string
		want  string // the words offered
	}{
		{[]string{"pu"}, "purge"},
		{[]string{"purge", ""}, "catalogue rules banners"},
		{[]string{"purge", "rules", ""}, "catalogue banners"},
		{[]string{"purge", "--so"}, "--soft"},
		{[]string{"--redis-url", "x", "purge", "ca"}, "catalogue"},
		{[]string{"--log-level", ""}, "debug info warn error"},
		{[]string{"serve", "--log-level", "=", "d"}, "debug"}, // as bash splits it
		{[]string{"serve", "--log-level=d"}, "--log-level=debug"},
		{[]string{"--log-f"}, "--log-format"},
		{[]string{"completion", ""}, "bash zsh fish"},
		{[]string{"completion", "bash", ""}, ""},
		{[]string{"--config", ""}, filesWord},
		{[]string{"check", "--ttl", ""}, ""},
		{[]string{"nonsense", "--js"}, ""},
	} {
		if got := strings.Join(completed(t, test.words...), " "); got != test.want {
			t.Errorf("%q: offers %q, want %q", test.words, got, test.want)
		}
	}
	if words := completed(t); !slices.Contains(words, "purge") || slices.Contains(words, completeWord) {
		t.Errorf("nothing typed yet: %v", words)
	}
}

// Each shell's script is tried in that shell.
func TestEachShellCompletes(t *testing.T) {
	for shell, ask := range map[string]string{
		"bash": `source <(vitrine completion bash); COMP_WORDS=(vitrine purge b); COMP_CWORD=2; _vitrine; printf '%s\n' "${COMPREPLY[@]}"`,
		"fish": `vitrine completion fish | source; complete -C 'vitrine purge b'`,
		"zsh": `autoload -Uz compinit; compinit -D; source <(vitrine completion zsh)
			compadd() { [[ $1 == -* ]] || return 0 }
			_describe() { print -l -- "${(@P)argv[-1]}" }
			words=(vitrine purge b) CURRENT=3; _vitrine`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				lacking(t, shell, shell)
			}
			flag := "-c"
			if shell == "zsh" {
				flag = "-fc"
			}
			command := exec.CommandContext(t.Context(), path, flag, ask)
			var stderr bytes.Buffer
			command.Stderr = &stderr
			out, err := command.Output()
			if err != nil || strings.TrimSpace(string(out)) != "banners" {
				t.Errorf("got %q, %v\n%s", out, err, &stderr)
			}
		})
	}
}

func TestEveryCommandShowsWhatToType(t *testing.T) {
	for _, command := range completed(t, "") {
		var out bytes.Buffer
		if code := run(t.Context(), []string{command, "--help"}, program{stdout: &out, stderr: t.Output()}); code != exitDone {
			t.Errorf("%s --help exits %d", command, code)
		}
		if !strings.Contains(out.String(), "Examples:") || !strings.Contains(out.String(), "vitrine "+command) {
			t.Errorf("%s --help shows no example:\n%s", command, &out)
		}
	}
}
