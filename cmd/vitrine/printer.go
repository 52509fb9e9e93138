package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/dustin/go-humanize/english"

	"vitrine/proxy/verdict"
	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// templates has a file for each kind of value that commands return.
//
//go:embed templates/*.txt
var templates embed.FS

// document is a value that is printed as it is.
type document []byte

var functions = template.FuncMap{
	"clean":     clean,
	"clock":     verdict.Clock,
	"json":      indented,
	"lines":     func(text string) safe { return safe(text) },
	"plural":    english.Plural,
	"resources": shape.Resources,
	"seconds":   func(n float64) time.Duration { return time.Duration(n * float64(time.Second)).Round(time.Second) },
	"minus":     func(a, b int) int { return a - b },
	"utc":       func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}

// show prints the value of a command: as JSON, or as text by a template, which is that of the
// command unless the value has another. It fails if the value says so.
func (p program) show(command string, value any, asJSON bool) (err error) {
	if value == nil {
		return nil
	}
	if view, ok := value.(interface{ view() string }); ok {
		command = view.view()
	}
	if doc, ok := value.(document); ok {
		err = p.printDocument(doc)
	} else if asJSON {
		err = p.printJSON(value)
	} else {
		err = p.printText(command, value)
	}
	if failing, ok := value.(interface{ failed() bool }); ok && err == nil && failing.failed() {
		err = errReported
	}
	return err
}

func (p program) printText(name string, value any) error {
	t, err := template.New(name+".txt").Funcs(functions).ParseFS(templates, "templates/"+name+".txt")
	if err != nil {
		return err
	}
	for _, one := range t.Templates() {
		cleanAll(one.Root)
	}
	var out strings.Builder
	if err := t.Execute(&out, value); err != nil {
		return err
	}
	_, err = io.WriteString(p.stdout, out.String())
	return err
}

// cleanAll ends each pipeline that prints with clean, as html/template does with its escapers.
func cleanAll(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, inner := range n.Nodes {
				cleanAll(inner)
			}
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{parse.NewIdentifier("clean")}})
		}
	case *parse.IfNode:
		cleanAll(n.List)
		cleanAll(n.ElseList)
	case *parse.RangeNode:
		cleanAll(n.List)
		cleanAll(n.ElseList)
	case *parse.WithNode:
		cleanAll(n.List)
		cleanAll(n.ElseList)
	}
}

// clean makes a value safe for a terminal.
func clean(v any) string {
	if lines, ok := v.(safe); ok {
		return string(lines)
	}
	return sanitize.Text(fmt.Sprint(v))
}

// safe is clean, in several lines.
type safe string

// indented is JSON for people, below a line of its own.
func indented(v json.RawMessage) (safe, error) {
	var out bytes.Buffer
	err := json.Indent(&out, v, "    ", "  ")
	return safe(sanitize.JSON(out.String())), err
}

// printJSON prints v for machines.
func (p program) printJSON(v any) error {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(p.stdout, sanitize.JSON(out.String()))
	return err
}

// printDocument prints a document byte for byte, or, on a terminal, as one that this only shows.
func (p program) printDocument(body []byte) error {
	if file, ok := p.stdout.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			body = []byte(sanitize.JSON(string(body)))
		}
	}
	_, err := p.stdout.Write(body)
	return err
}

// errReported is the failure of a command that has already printed its error.
var errReported = errors.New("reported")
