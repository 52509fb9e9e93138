package mapping

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"vitrine/upstream/shape"
)

// ownID is the identity of an item where no program says it.
var ownID, _ = Compile("", "id", "(.id // ._id)?") // a constant

// Identity returns what distinguishes an item in its list, whatever an editor does to it, by a
// program, or without one by its id or _id. An item without is its own identity. The digits of a
// text are a number.
func Identity(ctx context.Context, program *Program, root string, i int, item []byte) ([]byte, error) {
	path, budget := shape.Index(root, i), 8<<20+2*len(item)
	v, err := decode(path, item, &budget)
	if err != nil {
		return nil, err
	}
	var found any
	if program == nil {
		found, _, err = ownID.find(ctx, path, v)
	} else {
		found, err = program.One(ctx, path, v)
	}
	switch {
	case err != nil:
		return nil, err
	case found == nil && program == nil:
		return item, nil
	case program != nil && isNull(found):
		return nil, program.wrong(path, "want the item's identity, got null")
	}
	if text, ok := found.(string); ok && text != "" && strings.Trim(text, "0123456789") == "" {
		found = json.Number(text)
	}
	return Append(nil, path, found, Limits{Bytes: 1 << 10})
}

// isNull reports whether v is null, or a list of nothing else.
func isNull(v any) bool {
	list, isList := v.([]any)
	return v == nil || isList && !slices.ContainsFunc(list, func(v any) bool { return v != nil })
}
