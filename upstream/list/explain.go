package list

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// Step is the result of one step of mapping an item: one value, or none or several of a program.
type Step struct {
	Name  string            `json:"name"` // received, shared.map, map
	Value []json.RawMessage `json:"value"`
}

// Explain shows the steps of a sample: as received, and after each program that items pass through.
// Its error is of the step that failed; the steps before it are returned too.
func (m *Recipe) Explain(ctx context.Context, s Sample) ([]Step, error) {
	if len(s.Received) == 0 {
		return nil, nil
	}
	p, first := m.parts[s.part], s.Received[:1]
	steps := []Step{{"received", []json.RawMessage{first[0]}}}
	ctx, stop := mapping.Watch(ctx, len(first[0]))
	defer stop()
	for i, program := range p.mapped.Maps {
		name := "map"
		if program == m.shaping {
			name = "shared.map"
		}
		items := mapping.Items{Root: p.root, List: p.list, Maps: p.mapped.Maps[:i+1], MaxItems: p.Paging.MaxItems, Items: first}
		composition := &mapping.Composition{Root: p.root, MaxBytes: int(m.maxBytes)}
		if i == len(p.mapped.Maps)-1 {
			items.Draft, composition.Ignore, composition.Lists = m.draft, m.ignore, m.resource.Lists()
		}
		composition.Parts = []mapping.Items{items}
		made, err := composition.Compose(ctx)
		if err != nil {
			return steps, &exchange.Error{Op: s.Op, Kind: exchange.ErrAnswer, Err: err}
		}
		values := []json.RawMessage{made}
		if p.list { // a list of the results
			values = nil // Unmarshal would write into the first of them
			err = json.Unmarshal(made, &values)
		}
		if steps = append(steps, Step{name, values}); err != nil {
			return steps, err
		}
	}
	return steps, nil
}

// Normalize makes the document of what Read has made.
func (m *Recipe) Normalize(body []byte) (shape.Document, error) {
	release := mapping.Take(len(body))
	defer release()
	return shape.Read(m.resource, body, shape.Options{Expanded: m.shared.Relations == "required", MaxBytes: int(m.maxBytes)})
}

// Enough refuses a document in which a list has fewer items than its part must have.
func (m *Recipe) Enough(doc shape.Document) error {
	for _, p := range m.parts {
		for _, l := range doc.Survey {
			if (l.Path == p.root || !p.list) && l.Items < p.MinItems {
				return &shape.RefusedError{Path: l.Path, Want: fmt.Sprintf("at least %d items (min_items)", p.MinItems), Got: strconv.Itoa(l.Items)}
			}
		}
	}
	return nil
}

// Joined reports whether a program makes the document from all parts.
func (m *Recipe) Joined() bool { return m.program != nil }
