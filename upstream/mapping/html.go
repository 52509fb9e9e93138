package mapping

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// htmlText is the text of a piece of HTML as a browser's innerText has it: without tags, comments,
// scripts and styles, its entities read, white space collapsed except in pre. A block and <br> end a
// line, a blank line is between paragraphs, and a tab between cells. A text without tags keeps its
// lines.
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
	breaks int  // of a <br> each
	margin int  // newlines between blocks: 1, or 2 between paragraphs
	tabs   int  // between cells
	space  bool // collapsed
	begun  bool // the row has a cell
	empty  bool // the cell has no text yet
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
		r.begun, r.empty, r.space = true, true, true
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
	blank := func(c rune) bool { return strings.ContainsRune(" \t\r\n\f", c) } // not the no-break space
	r.space = r.space || blank(rune(in[0]))
	for word := range bytes.FieldsFuncSeq(in, blank) {
		r.word(word)
		r.space = true
	}
	r.space = blank(rune(in[len(in)-1]))
}

// word appends a piece of text after what separates it from the one before.
func (r *rendered) word(piece []byte) {
	lines := max(r.breaks, r.margin)
	switch {
	case r.Len() == 0:
	case lines > 0 || r.tabs > 0:
		r.WriteString(strings.Repeat("\n", lines) + strings.Repeat("\t", r.tabs))
	case r.space:
		r.WriteByte(' ')
	}
	r.Write(piece)
	r.breaks, r.margin, r.tabs, r.space, r.empty = 0, 0, 0, false, false
}
