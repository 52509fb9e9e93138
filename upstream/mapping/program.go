// Package mapping turns a CMS's responses into the input of shape.Normalize.
//
// One response goes through it like this:
//
//  1. [Preset.Open] finds the list in its envelope, and its paging. The items stay bytes;
//  2. an item that has to change is decoded ([Decode]), loses the CMS's own envelopes and names
//     ([Preset.Convert]), and passes through the operator's program ([Program.Run]);
//  3. the result is appended to the document ([Append]).
//
// Programs are jq, run by gojq, and bounded in time by their context and in what they yield by
// their caller. They reach neither files nor the environment.
package mapping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"vitrine/upstream/plain"
	"vitrine/upstream/shape"
)

// ErrProgram matches every failure of a program, when it is compiled or run.
var ErrProgram = errors.New("mapping program failed")

// ProgramError says which program failed, where in it and on what. It quotes the CMS, so it belongs
// in logs and not in public responses.
type ProgramError struct {
	Program string // its key in the configuration: upstream.resources.banners.parts[0].map
	Line    int    // of the failing part of the program, from 1
	File    int    // the same in the configuration file; 0 where that is not known
	Text    string // that part, shortened
	Input   string // the path of its input: catalogue.artist[3]; empty when compiling
	Err     error  `json:"-"`
}

// Error reads: catalogue.artist[3]: upstream.resources.…map, line 2 (.tag | join(",")): cannot
// iterate over: null.
func (e *ProgramError) Error() string {
	text := fmt.Sprintf("%s, line %d (%s): %v", e.Program, e.Line, e.Text, e.Err)
	if e.File > 0 {
		text = fmt.Sprintf("%s, line %d, %d of the file (%s): %v", e.Program, e.Line, e.File, e.Text, e.Err)
	}
	if e.Input != "" {
		text = e.Input + ": " + text
	}
	return text
}

func (e *ProgramError) Unwrap() error { return e.Err }

// Is makes every ProgramError an [ErrProgram], and one about a CMS's data a refusal.
func (e *ProgramError) Is(target error) bool {
	return target == ErrProgram || target == shape.ErrRefused && e.Input != ""
}

// Program is a jq program, compiled. It is safe for concurrent use.
type Program struct {
	defs   string // that come before source
	file   int    // the line of the configuration file before its first; -1 where that is not known
	name   string
	source string
	code   *gojq.Code
}

// maxSource bounds a program. Typical ones have up to 2,000 bytes.
const maxSource = 64 << 10

// Compile reads a program that follows definitions, which programs share. Its error is a
// *[ProgramError].
func Compile(defs, name, source string) (*Program, error) {
	if len(source) > maxSource {
		return nil, &ProgramError{Program: name, Line: 1, Text: excerpt(source), Err: fmt.Errorf("longer than %d bytes", maxSource)}
	}
	code, err := compile(defs + source)
	if err == nil {
		return &Program{name: name, defs: defs, source: source, code: code, file: -1}, nil
	}
	failed := &ProgramError{Program: name, Err: err}
	if syntax, ok := errors.AsType[*gojq.ParseError](err); ok {
		at := max(0, min(syntax.Offset-len(prelude+defs), len(source))-len(syntax.Token))
		failed.Line, failed.Text = lineAt(source, at)
		return nil, failed
	}
	failed.Line, failed.Text = locate(source, func(prefix string) bool {
		_, err := compile(defs + prefix)
		return err != nil
	})
	return nil, failed
}

func compile(source string) (*gojq.Code, error) {
	query, err := gojq.Parse(prelude + source)
	if err != nil {
		return nil, err
	}
	return gojq.Compile(query, functions()...)
}

// Source is the program's source; that of nil is "".
func (p *Program) Source() string {
	if p == nil {
		return ""
	}
	return p.source
}

// From notes where the program stands in the configuration file: on the lines after before.
func (p *Program) From(before int) { p.file = before }

// MarshalJSON writes the program as it was written: the process that runs it compiles it again.
func (p *Program) MarshalJSON() ([]byte, error) {
	return json.Marshal([]string{p.defs, p.name, p.source, strconv.Itoa(p.file)})
}

// UnmarshalJSON compiles it.
func (p *Program) UnmarshalJSON(in []byte) error {
	var written [4]string
	if err := json.Unmarshal(in, &written); err != nil {
		return err
	}
	made, err := Compile(written[0], written[1], written[2])
	if err == nil {
		*p = *made
		p.file, err = strconv.Atoi(written[3])
	}
	return err
}

// Run runs the program on input, which it does not change and which Decode or another Run has made,
// and gives each output to emit, at most so many unless most is 0. path is the input's, for errors:
// a *[ProgramError], or what emit returned. An ended ctx ends the run with a *ProgramError that is
// the context's error.
func (p *Program) Run(ctx context.Context, path string, input any, most int, emit func(any) error) error {
	running.Store(&p.name)
	var refused error // by emit
	failed := run(ctx, p.code, input, most, func(v any) error {
		refused = emit(v)
		return refused
	})
	if failed == nil || refused != nil {
		return refused
	}
	if thrown, ok := errors.AsType[gojq.ValueError](failed); ok {
		if text, ok := thrown.Value().(string); ok {
			failed = errors.New(text)
		}
	}
	e := &ProgramError{Program: p.name, Input: path, Err: failed}
	e.Line, e.Text = lineAt(p.source, 0)
	if ctx.Err() == nil {
		e.Line, e.Text = locate(p.source, func(prefix string) bool { return p.fails(ctx, prefix, input, most) })
	}
	if p.file >= 0 {
		e.File = p.file + e.Line
	}
	return e
}

// fails reports whether the beginning of the program already fails on input.
func (p *Program) fails(ctx context.Context, prefix string, input any, most int) bool {
	code, err := compile(p.defs + prefix)
	if err != nil {
		return false
	}
	return run(ctx, code, input, most, func(any) error { return nil }) != nil
}

func run(ctx context.Context, code *gojq.Code, input any, most int, emit func(any) error) error {
	values := 0
	iter := code.RunWithContext(ctx, input)
	for {
		v, more := iter.Next()
		if !more {
			return nil
		}
		if err, ok := v.(error); ok {
			if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
				return nil
			}
			return err
		}
		if values++; most > 0 && values > most {
			return fmt.Errorf("it yields more than %d values", most)
		}
		if err := emit(v); err != nil {
			return err
		}
	}
}

// maxStages bounds how often locate runs a program that failed.
const maxStages = 64

// locate finds the first failing stage of a pipeline, since gojq's errors have no position: every
// prefix of the source that ends before a bar or comma and compiles is the pipeline cut short
// there.
func locate(source string, fails func(prefix string) bool) (line int, text string) {
	from, tried, quoted := 0, 0, false
	for at := 0; at < len(source) && tried < maxStages; at++ {
		switch c := source[at]; {
		case c == '\\':
			at++
			continue
		case c == '"':
			quoted = !quoted
			continue
		case c == '#' && !quoted:
			at += max(strings.IndexByte(source[at:], '\n'), 0)
			continue
		case quoted || c != '|' && c != ',' || at+1 < len(source) && source[at+1] == '=':
			continue
		}
		prefix := source[:at]
		if _, err := gojq.Parse(prefix); err != nil || strings.TrimSpace(prefix) == "" {
			continue
		}
		tried++
		if fails(prefix) {
			return lineOf(source, from), excerpt(source[skipBlank(source, from):at])
		}
		from = at + 1
	}
	return lineOf(source, from), excerpt(source[skipBlank(source, from):])
}

// skipBlank returns the offset of the next word, skipping comments.
func skipBlank(source string, at int) int {
	for at < len(source) {
		switch source[at] {
		case ' ', '\t', '\r', '\n':
			at++
		case '#':
			end := strings.IndexByte(source[at:], '\n')
			if end < 0 {
				return len(source)
			}
			at += end
		default:
			return at
		}
	}
	return at
}

func lineOf(source string, at int) int {
	return 1 + strings.Count(source[:skipBlank(source, at)], "\n")
}

// lineAt is the line at an offset, and its text.
func lineAt(source string, at int) (line int, text string) {
	at = min(at, len(source))
	begin := strings.LastIndexByte(source[:at], '\n') + 1
	rest, _, _ := strings.Cut(source[begin:], "\n")
	return 1 + strings.Count(source[:begin], "\n"), excerpt(rest)
}

// excerpt shortens a piece of a program for a log line.
func excerpt(text string) string { return plain.Clip(strings.Join(strings.Fields(text), " "), 80) }
