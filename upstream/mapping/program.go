// Package mapping turns a CMS's responses into the input of shape.Normalize.
//
// One response goes through it like this:
//
//  1. [Opening.Open] finds the list in its envelope, and its paging. The items stay bytes;
//  2. an item that has to change is decoded ([Decode]), and passes through the programs of its part
//     ([Composition.Compose]);
//  3. the result is appended to the document ([Append]).
//
// Programs are jq, run by gojq, and bounded in time and memory by their context ([Watch]) and in
// what they yield by their caller. They reach neither files nor the environment.
package mapping

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/itchyny/gojq"

	"vitrine/upstream/sanitize"
	"vitrine/upstream/shape"
)

// ErrProgram matches every failure of a program, when it is compiled or run.
var ErrProgram = errors.New("mapping program failed")

// ProgramError says which program failed, and on what. It quotes the CMS, so it belongs in logs and
// not in public responses.
type ProgramError struct {
	Program string // its key in the configuration: upstream.resources.banners.parts[0].map
	Line    int    // of a syntax error in the program, from 1; 0 otherwise
	Text    string // that line, shortened
	Input   string // the path of its input: catalogue.artist[3]; empty when compiling
	Err     error
}

// Error reads: catalogue.artist[3]: upstream.resources.…map: cannot iterate over: null.
func (e *ProgramError) Error() string {
	text := fmt.Sprintf("%s: %v", e.Program, e.Where())
	if e.Input != "" {
		text = e.Input + ": " + text
	}
	return text
}

// Where is the error without the program's name, for a message that has it.
func (e *ProgramError) Where() error {
	if e.Line == 0 {
		return e.Err
	}
	return fmt.Errorf("line %d (%s): %w", e.Line, e.Text, e.Err)
}

func (e *ProgramError) Unwrap() error { return e.Err }

// Is makes every ProgramError an [ErrProgram], and one about a CMS's data a refusal: not of a run
// that its context ended, which says nothing about them.
func (e *ProgramError) Is(target error) bool {
	ended := errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded)
	return target == ErrProgram || target == shape.ErrRefused && e.Input != "" && !ended
}

// Program is a jq program, compiled. It is safe for concurrent use.
type Program struct {
	name   string
	source string
	code   *gojq.Code
	ways   [][]string // of a program that only goes down into objects; nil for any other
}

// maxSource bounds a program. Typical ones have up to 2,000 bytes.
const maxSource = 64 << 10

// Compile reads a program that follows definitions, which programs share. Its error is a
// *[ProgramError].
func Compile(defs, name, source string) (*Program, error) {
	failed := &ProgramError{Program: name}
	if len(source) > maxSource {
		failed.Err = fmt.Errorf("longer than %d bytes", maxSource)
		return nil, failed
	}
	code, err := compile(defs + source)
	if err == nil {
		return &Program{name: name, source: source, code: code, ways: waysOf(source)}, nil
	}
	if syntax, ok := errors.AsType[*gojq.ParseError](err); ok {
		at := max(0, min(syntax.Offset-len(prelude+defs), len(source))-len(syntax.Token))
		failed.Line, failed.Text = lineAt(source, at)
	} else if _, name, ok := strings.Cut(err.Error(), " not defined: "); ok { // for which gojq has no place
		name, _, _ = strings.Cut(name, "/")
		if at := strings.Index(source, name); at >= 0 {
			failed.Line, failed.Text = lineAt(source, at)
		}
	}
	failed.Err = err
	return nil, failed
}

func compile(source string) (*gojq.Code, error) {
	query, err := gojq.Parse(prelude + source)
	if err != nil {
		return nil, err
	}
	return gojq.Compile(query, functions()...)
}

// In says where the program is written, for the errors of its runs: vitrine.yaml:12.
func (p *Program) In(place string) { p.name += " (" + place + ")" }

// Timely reports whether a program, or a definition, may call now: what it yields then changes
// though its input does not.
func Timely(source string) bool { return timely.MatchString(source) }

var timely = regexp.MustCompile(`(^|[^.$\w])now\b`)

// Run runs the program on input, which it does not change and which Decode or another Run has made,
// and gives each output to emit, at most so many unless most is 0. path is the input's, for errors:
// a *[ProgramError], or what emit returned. An ended ctx ends the run with a *ProgramError that is
// the context's error.
func (p *Program) Run(ctx context.Context, path string, input any, most int, emit func(any) error) error {
	iter, values := p.code.RunWithContext(ctx, input), 0
	for {
		v, more := iter.Next()
		if !more {
			return nil
		}
		if err, ok := v.(error); ok {
			return p.failed(ctx, path, err)
		}
		if values++; most > 0 && values > most {
			return p.failed(ctx, path, fmt.Errorf("it yields more than %d values", most))
		}
		if err := emit(v); err != nil {
			return err
		}
	}
}

// failed is the error of a run that ended with err; nil if the program halted.
func (p *Program) failed(ctx context.Context, path string, err error) error {
	if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
		return nil
	}
	if thrown, ok := errors.AsType[gojq.ValueError](err); ok {
		if text, ok := thrown.Value().(string); ok {
			err = errors.New(text)
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return &ProgramError{Program: p.name, Input: path, Err: err}
}

// waysOf returns the members that a program goes down to, one way after the other if one leads to
// null: .data, .results? // ., .meta.total // empty. Most of those that find something in a response
// are like that: the items are taken out as bytes while it is read, and only what is around them is
// decoded. No steps are the value itself. It is nil for any other program.
func waysOf(source string) (ways [][]string) {
	source = strings.Join(strings.Fields(source), " ")
	for way := range strings.SplitSeq(strings.TrimSuffix(source, " // empty"), "//") {
		switch way = strings.TrimSpace(way); {
		case way == ".":
			ways = append(ways, nil)
		case steps.MatchString(way):
			ways = append(ways, strings.Split(strings.ReplaceAll(way[1:], "?", ""), "."))
		default:
			return nil
		}
	}
	return ways
}

var steps = regexp.MustCompile(`^(?:\.[A-Za-z_]\w*\??)+$`)

// lineAt is the line at an offset, and its text, shortened.
func lineAt(source string, at int) (line int, text string) {
	at = min(at, len(source))
	begin := strings.LastIndexByte(source[:at], '\n') + 1
	rest, _, _ := strings.Cut(source[begin:], "\n")
	return 1 + strings.Count(source[:begin], "\n"), sanitize.Clip(strings.Join(strings.Fields(rest), " "), 80)
}
