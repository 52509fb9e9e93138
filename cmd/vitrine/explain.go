package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"vitrine/upstream"
	"vitrine/upstream/shape"
)

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
