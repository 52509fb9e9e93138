package cache

import "context"

// A Lender is a context whose values are valid during a call only, such as a request whose memory
// is reused. Lend returns a context with the values that a load may need later.
type Lender interface {
	context.Context
	Lend() context.Context
}

// lend returns the values of ctx, without its end.
func lend(ctx context.Context) context.Context {
	if l, ok := ctx.(Lender); ok {
		ctx = l.Lend()
	}
	return context.WithoutCancel(ctx)
}

// valued is a context with the values of another one.
type valued struct {
	context.Context
	values context.Context
}

// Value returns the lent values first.
func (v valued) Value(key any) any {
	if value := v.values.Value(key); value != nil {
		return value
	}
	return v.Context.Value(key)
}
