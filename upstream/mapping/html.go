package mapping

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// htmlText is the text of a piece of HTML as a browser's innerText has it: without tags, comments,
// scripts and styles, its entities read, white space collapsed except in pre, and but for a lone
// tab, which an editor typed. A block and <br> end a line, a blank line is between paragraphs, and a
// tab between cells. A text without tags keeps its lines.
func htmlText(in string) string {
	if !strings.Contains(in, "<") {
		return strings.TrimSpace(html.UnescapeString(in))
	}
	var out rendered
	skipped := false // a script or a style, whose text follows its tag
	for z := html.NewTokenizer(strings.NewReader(in)); ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken: // the end
			return strings.TrimSpace(out.String())
		case html.TextToken:
			if !skipped {
				out.text(z.Text())
			}
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			name, _ := z.TagName()
			skipped = kind == html.StartTagToken && (string(name) == "script" || string(name) == "style")
			out.tag(string(name), kind == html.EndTagToken)
		}
	}
}

// blocks are the elements that begin and end a line, besides paragraphs, rows and cells.
var blocks = strings.Fields(`address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption
	figure footer form h1 h2 h3 h4 h5 h6 header hr html legend li main menu nav ol option pre section summary tbody tfoot thead
	ul`)

// rendered is text, and what comes before the next piece of it.
type rendered struct {
	strings.Builder
	breaks int    // of a <br> each
	margin int    // newlines between blocks: 1, or 2 between paragraphs
	tabs   int    // between cells
	blank  string // a space, or the tab
	begun  bool   // the row has a cell
	empty  bool   // the cell has no text yet
	pre    bool
}

func (r *rendered) tag(name string, end bool) {
	switch {
	case name == "br":
		r.breaks++
	case name == "td" || name == "th": // whose own blocks make no lines at its edges
		if r.begun && !end {
			r.tabs++
		}
		if end || r.tabs > 0 {
			r.breaks, r.margin = 0, 0
		}
		r.begun, r.empty, r.blank = true, true, " "
	case name == "tr" || name == "table":
		r.tabs, r.begun, r.empty, r.margin = 0, false, false, max(r.margin, 1)
	case r.empty:
	case name == "p":
		r.margin = 2
	case slices.Contains(blocks, name):
		r.margin = max(r.margin, 1)
	}
	if name == "pre" {
		r.pre = !end
	}
}

func (r *rendered) text(in []byte) {
	if r.pre {
		r.word(in)
		return
	}
	const blanks = " \t\r\n\f" // not the no-break space
	for len(in) > 0 {
		rest := bytes.TrimLeft(in, blanks)
		if n := len(in) - len(rest); n > 0 && r.blank == "" {
			if r.blank = " "; n == 1 && in[0] == '\t' {
				r.blank = "\t"
			}
		}
		end := bytes.IndexAny(rest, blanks)
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			r.word(rest[:end])
		}
		in = rest[end:]
	}
}

// word appends a piece of text after what separates it from the one before.
func (r *rendered) word(piece []byte) {
	lines := max(r.breaks, r.margin)
	switch {
	case r.Len() == 0:
	case lines > 0 || r.tabs > 0:
		r.WriteString(strings.Repeat("\n", lines) + strings.Repeat("\t", r.tabs))
	default:
		r.WriteString(r.blank)
	}
	r.Write(piece)
	r.breaks, r.margin, r.tabs, r.blank, r.empty = 0, 0, 0, "", false
}
