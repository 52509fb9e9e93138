package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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

// explain shows how the first items of a resource become part of its document.
func explain(ctx context.Context, client *upstream.Client, r shape.Resource, asJSON bool, p program) error {
	report, failed := client.Explain(ctx, r)
	screen := &screen{w: p.stdout}
	if asJSON {
		if err := p.printJSON(report); err != nil {
			return err
		}
		screen.w = p.stderr // for why it failed
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
	if failed != nil || slices.ContainsFunc(report, func(e upstream.Explanation) bool { return e.Error != "" }) {
		return errReported
	}
	return nil
}

func (v checkView) explained(e upstream.Explanation) {
	v.printf("%s, the first item of %s\n", e.Path, e.Op)
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
		v.printf("  FAILED %s\n", e.Error)
	}
	v.repaired(e.Repairs)
}
