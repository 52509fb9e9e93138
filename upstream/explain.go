package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vitrine/upstream/list"
	"vitrine/upstream/shape"
)

// Explanation shows how one item of a part becomes part of the document.
type Explanation struct {
	Path    string        `json:"path"`    // of the part: catalogue.artist
	Op      string        `json:"request"` // how it was obtained
	Steps   []list.Step   `json:"steps"`
	Repairs shape.Repairs `json:"repairs"`         // of the result
	Error   string        `json:"error,omitempty"` // of the step that failed
}

// Explain fetches r once, and shows for the first item of each part what was received, what each
// step made of it, and what was repaired. Its error is that of the fetch; the steps before it are
// explained too.
func (c *Client) Explain(ctx context.Context, r shape.Resource) ([]Explanation, error) {
	if !r.Valid() {
		return nil, fmt.Errorf("explain: no resource %q", r)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	got, err := c.recipes[r].Read(ctx, c.cms, list.Request{})
	if err != nil {
		err = c.hide(fmt.Errorf("fetch %s: %w", r, err))
	}
	if len(got.Samples) == 0 { // the response is the document
		first := shape.FirstItems(r, got.Body)
		for _, path := range slices.Sorted(maps.Keys(first)) {
			got.Samples = append(got.Samples, list.Sample{Path: path, Op: got.Op, Received: [][]byte{first[path]}})
		}
	}
	all, recipe := []Explanation{}, c.recipes[r]
	for _, sample := range got.Samples {
		e := Explanation{Path: sample.Path, Op: sample.Op}
		var failed error
		if e.Steps, failed = recipe.Explain(ctx, sample); failed == nil && len(e.Steps) > 0 && !recipe.Joined() {
			failed = e.serve(r, recipe)
		}
		c.failed(&e, failed)
		all = append(all, e)
	}
	if !recipe.Joined() || got.Body == nil {
		return all, err
	}
	made := shape.FirstItems(r, got.Body) // by the program of the whole
	for _, path := range slices.Sorted(maps.Keys(made)) {
		i := slices.IndexFunc(all, func(e Explanation) bool { return e.Path == path })
		if i < 0 {
			i, all = len(all), append(all, Explanation{Path: path, Op: got.Op})
		}
		e := &all[i]
		e.Steps = append(e.Steps, list.Step{Name: string(r) + ".map", Value: []json.RawMessage{made[path]}})
		c.failed(e, e.serve(r, recipe))
	}
	return all, err
}

func (c *Client) failed(e *Explanation, err error) {
	if err != nil {
		e.Error = c.cms.Mask(err.Error())
	}
}

// serve adds the last step: the item as it is served.
func (e *Explanation) serve(r shape.Resource, recipe *list.Recipe) error {
	var items []string
	for _, value := range e.Steps[len(e.Steps)-1].Value {
		items = append(items, string(value))
	}
	item := strings.Join(items, ",")
	name := strings.TrimPrefix(strings.TrimPrefix(e.Path, string(r)), ".")
	document := "[" + item + "]"
	switch {
	case len(r.Lists()) > 0 && name == "": // one object
		document = item
	case name != "": // beside empty ones
		document = `{"` + strings.Join(r.Lists(), `":[],"`) + `":[]}`
		document = strings.Replace(document, `"`+name+`":[`, `"`+name+`":[`+item, 1)
	}
	doc, err := recipe.Normalize([]byte(document))
	if err != nil {
		return err
	}
	served := list.Step{Name: "served", Value: []json.RawMessage{}}
	if item := shape.FirstItems(r, doc.Body)[e.Path]; len(r.Lists()) > 0 && name == "" {
		served.Value = append(served.Value, doc.Body)
	} else if item != nil {
		served.Value = append(served.Value, item)
	}
	e.Repairs = doc.Repairs
	e.Steps = append(e.Steps, served)
	return nil
}
