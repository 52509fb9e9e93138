package list

import (
	"context"

	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
)

// Step is the result of one step of mapping an item.
type Step struct {
	Name string // received, preset, map
	JSON []byte // one value, or several one after the other
}

// Explain shows the steps of a sample: as received, without the CMS's envelope, and mapped by the
// part's program. Its error is of the step that failed; the steps before it are returned too.
func (m *Recipe) Explain(ctx context.Context, s Sample) ([]Step, error) {
	if len(s.items) == 0 {
		return nil, nil
	}
	p := m.parts[s.part]
	steps := []Step{{"received", s.items[0]}}
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
		if p.list { // a list of the results
			made = made[1 : len(made)-1]
		}
		steps = append(steps, Step{name, made})
		return nil
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

// Joined reports whether the parts are joined, by a program or by the preset.
func (m *Recipe) Joined() bool { return m.program != nil || m.preset.Joins(m.resource) }
