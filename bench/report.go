package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// A table of what was measured, or a text.
type table struct {
	Name string
	Text string // in the place of rows
	Head []string
	Rows [][]string
}

func (t table) print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	_ = out.Flush() // nothing can be done about a closed standard output
	fmt.Fprintln(w)
}

// markdown of the table; an empty cell is a dash.
func (t table) markdown() string {
	if t.Text != "" {
		return t.Text
	}
	rows := append([][]string{t.Head, strings.Split(strings.Repeat("---,", len(t.Head)-1)+"---", ",")}, t.Rows...)
	var b strings.Builder
	for i, row := range rows {
		for _, cell := range row {
			if cell == "" && i > 0 {
				cell = "–"
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// write puts each table into a page, between its markers.
func write(page string, tables []table) error {
	raw, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text := string(raw)
	for _, t := range tables {
		before, rest, ok := strings.Cut(text, "<!-- bench: "+t.Name+" -->\n")
		_, after, ended := strings.Cut(rest, "<!-- bench end -->")
		if !ok || !ended {
			return fmt.Errorf("%s has no place for the table %s", page, t.Name)
		}
		text = before + "<!-- bench: " + t.Name + " -->\n" + t.markdown() + "\n<!-- bench end -->" + after
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

func judge(good bool) string {
	if good {
		return "met"
	}
	return "missed"
}
