package list

import (
	"context"
	"encoding/json"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
	"vitrine/upstream/shape"
)

// Step is the result of one step of mapping an item: one value, or none or several of a program.
type Step struct {
	Name  string            `json:"name"` // received, preset, map
	Value []json.RawMessage `json:"value"`
}

// Explain shows the steps of a sample: as received, without the CMS's envelope, and mapped by the
// part's program. Its error is of the step that failed; the steps before it are returned too.
func (m *Recipe) Explain(ctx context.Context, s Sample) ([]Step, error) {
	if len(s.items) == 0 {
		return nil, nil
	}
	p := m.parts[s.part]
	steps := []Step{{"received", []json.RawMessage{s.items[0]}}}
	work := new(mapping.Worker)
	defer work.Close()
	do := func(name string, program *mapping.Program) error {
		made, err := work.Compose(ctx, &mapping.Composition{
			Resource: m.resource, Preset: m.preset.Name, Alone: true, MaxBytes: int(m.maxBytes),
			Parts: []mapping.Items{{Root: p.root, List: p.list, IDs: p.IDs, Map: program, MaxItems: p.Paging.MaxItems, Items: s.items}},
		})
		if err != nil {
			return &exchange.Error{Op: s.Op, Kind: exchange.ErrAnswer, Err: err}
		}
		values := []json.RawMessage{made}
		if p.list { // a list of the results
			values = nil // Unmarshal would write into the first of them
			err = json.Unmarshal(made, &values)
		}
		steps = append(steps, Step{name, values})
		return err
	}
	if m.preset.Converts {
		if err := do("preset", nil); err != nil && p.program == nil {
			return steps, err
		}
	}
	if p.program != nil {
		if err := do("map", p.program); err != nil {
			return steps, err
		}
	}
	return steps, nil
}

// Normalize makes the document of what Read has made.
func (m *Recipe) Normalize(body []byte) (shape.Document, error) {
	return shape.Read(m.resource, body, m.preset.Expands)
}

// Joined reports whether the parts are joined, by a program or by the preset.
func (m *Recipe) Joined() bool { return m.program != nil || m.preset.Joins(m.resource) }
