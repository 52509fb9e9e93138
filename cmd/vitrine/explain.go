package main

import (
	"context"
	"slices"

	"vitrine/upstream"
	"vitrine/upstream/shape"
)

// explanations are how the first items of a resource become part of its document.
type explanations []upstream.Explanation

func (all explanations) view() string { return "explain" }
func (all explanations) failed() bool {
	return slices.ContainsFunc(all, func(e upstream.Explanation) bool { return e.Error != "" })
}

// explain explains a resource, as far as it can be fetched.
func explain(ctx context.Context, client *upstream.Client, r shape.Resource) (any, error) {
	all, err := client.Explain(ctx, r)
	if len(all) == 0 && err != nil {
		return nil, err
	}
	return explanations(all), err
}
