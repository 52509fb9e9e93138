package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"

	"vitrine/cache"
	"vitrine/cmd/vitrine/loader"
	"vitrine/upstream/shape"
)

// accepted is what accept did.
type accepted struct {
	Resource     shape.Resource `json:"resource"`
	Accepted     string         `json:"accepted,omitempty"` // why the document was held back
	Acknowledged int            `json:"acknowledged"`       // content warnings
}

// accept accepts what is held back now and nothing worse, and acknowledges content warnings.
func accept(c *call, _ *flag.FlagSet) action {
	return c.onStore(1, func(ctx context.Context, store *cache.Store, r shape.Resource) (any, error) {
		present, err := store.Present(ctx, string(r))
		if err != nil {
			return nil, err
		}
		known, warnings := loader.Warnings(present.Document), ""
		did := accepted{Resource: r, Acknowledged: len(known.Standing())}
		if did.Acknowledged > 0 {
			text, _ := json.Marshal(known.Acknowledge()) // texts and numbers
			warnings = string(text)
		}
		if h := present.HeldBack; h != nil {
			did.Accepted = h.Reason
		} else if warnings == "" {
			return nil, errors.New("nothing is held back, and no content warning stands")
		}
		done, err := store.Accept(ctx, string(r), present, warnings)
		if err == nil && !done {
			err = errors.New("what is held back has changed meanwhile: see vitrine status, and try again")
		}
		return did, err
	})
}
