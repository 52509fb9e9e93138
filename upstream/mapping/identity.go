package mapping

import (
	"bytes"
	"context"
)

// Identity returns what distinguishes an item in its list, whatever an editor does to it, by a
// program, or without one by its id or _id; and whether the CMS provides that. Otherwise it is the
// whole item.
func Identity(ctx context.Context, program *Program, root string, i int, item []byte) (identity []byte, has bool, err error) {
	paths := defaultIdentity
	if program != nil {
		paths = program.paths
	}
	if paths == nil {
		identity, err = program.identity(ctx, index(root, i), item)
		return identity, true, err
	}
	for i, p := range paths {
		if i > 0 {
			identity = append(identity, ',') // 1 and 11 are not 11 and 1
		}
		raw := p.raw(item)
		identity, has = append(identity, raw...), has || raw != nil
	}
	switch {
	case has:
		return identity, true, nil
	case program == nil:
		return item, false, nil
	}
	return nil, false, refuse(index(root, i), "the item's identity from the program", "null")
}

var defaultIdentity = pathsOf(".id // ._id")

// identity runs a program that is no path.
func (p *Program) identity(ctx context.Context, root string, item []byte) ([]byte, error) {
	v, err := Decode(root, item)
	if err != nil {
		return nil, err
	}
	found, err := p.one(ctx, root, v)
	if err != nil {
		return nil, err
	}
	id, err := Append(nil, root, found, Limits{Bytes: 1 << 10})
	if err == nil && bytes.Equal(id, []byte("null")) {
		err = refuse(root, "the item's identity from the program", "null")
	}
	return id, err
}
