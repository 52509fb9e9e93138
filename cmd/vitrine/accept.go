package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

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
	return c.onStore(1, func(ctx context.Context, store *cache.Store, some []shape.Resource) (any, error) {
		r := some[0]
		failed := func(err error) error { return fmt.Errorf("accept %s at %s: %w", r, store.Addr(), err) }
		present, err := store.Present(ctx, string(r))
		if err != nil {
			return nil, failed(err)
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
			return nil, failed(errors.New("nothing is held back, and no content warning stands"))
		}
		if done, err := store.Accept(ctx, string(r), present, warnings); err != nil {
			return nil, failed(err)
		} else if !done {
			return nil, failed(errors.New("what is held back has changed meanwhile: see vitrine status, and try again"))
		}
		return did, nil
	})
}
