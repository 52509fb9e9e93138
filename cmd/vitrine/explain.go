package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// recorder keeps responses as files in a folder.
type recorder struct {
	dir string // empty: nowhere

	mu  sync.Mutex // guards err
	err error      // the first
}

func (r *recorder) install(o *upstream.Options) {
	if r.dir == "" {
		return
	}
	r.err = os.MkdirAll(r.dir, 0o700)
	o.Record = func(name string, raw []byte) {
		err := os.WriteFile(filepath.Join(r.dir, name), raw, 0o600)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err == nil {
			r.err = err
		}
	}
}

// explained is an upstream.Explanation as JSON.
type explained struct {
	Path    string          `json:"path"`
	Request string          `json:"request"`
	Steps   []explainedStep `json:"steps"`
	Repairs []repairsReport `json:"repairs"`
	Error   string          `json:"error,omitempty"`
}

type explainedStep struct {
	Name  string            `json:"name"`
	Value []json.RawMessage `json:"value"` // none or several, as the program yields
}

// explain shows how the first items of a resource become part of its document.
func explain(ctx context.Context, client *upstream.Client, r shape.Resource, asJSON bool, p program) error {
	all, failed := client.Explain(ctx, r)
	report := []explained{}
	for _, e := range all {
		one := explained{Path: e.Path, Request: e.Op, Repairs: repairsOf(e.Repairs)}
		for _, step := range e.Steps {
			made := explainedStep{Name: step.Name, Value: []json.RawMessage{}}
			_ = json.Unmarshal(bytes.Join([][]byte{[]byte("["), step.JSON, []byte("]")}, nil), &made.Value) // JSON, or nothing
			one.Steps = append(one.Steps, made)
		}
		if e.Error != nil {
			one.Error = e.Error.Error()
		}
		report = append(report, one)
	}
	screen := newScreen(p)
	if asJSON {
		if err := p.printJSON(report); err != nil {
			return err
		}
	} else {
		for i, e := range report {
			if i > 0 {
				screen.printf("\n")
			}
			checkView{screen}.explained(e)
		}
		if len(report) == 0 && failed == nil {
			screen.printf("%s: there is no item to show\n", string(r))
		}
	}
	if failed != nil {
		screen.printf("%s\n", failed.Error())
	}
	if err := screen.flush(); err != nil {
		return err
	}
	for _, e := range report {
		if e.Error != "" {
			return errReported
		}
	}
	if failed != nil {
		return errReported
	}
	return nil
}

func (v checkView) explained(e explained) {
	v.printf("%s, the first item of %s\n", e.Path, e.Request)
	for _, step := range e.Steps {
		v.printf("  %s\n", step.Name)
		if len(step.Value) == 0 {
			v.printf("    nothing: the item is left out\n")
		}
		for _, value := range step.Value {
			var out bytes.Buffer
			if json.Indent(&out, value, "", "  ") != nil {
				continue
			}
			for line := range bytes.Lines(out.Bytes()) {
				v.printf("    %s\n", string(bytes.TrimSuffix(line, []byte("\n"))))
			}
		}
	}
	if e.Error != "" {
		v.printf("  %s %s\n", v.bad("FAILED"), e.Error)
	}
	v.repairs("repaired", e.Repairs)
}

func repairsOf(repairs shape.Repairs) []repairsReport {
	all := []repairsReport{}
	for _, kind := range repairs.Kinds() {
		all = append(all, repairsReport{Kind: kind, Count: repairs.Count(kind), Paths: repairs.Paths(kind)})
	}
	return all
}
