package main

import (
	"context"
	"flag"
	"slices"
	"strings"
	"time"

	"vitrine/config/source"
	"vitrine/proxy/notify"
)

// tests are what became of the tests of endpoints.
type tests []tested

type tested struct {
	Name         string  `json:"name"`
	Host         string  `json:"host"`
	Error        string  `json:"error,omitempty"`
	Milliseconds float64 `json:"milliseconds"`
	Request      string  `json:"request,omitempty"` // that would be sent, its secrets masked
}

func (all tests) failed() bool {
	return slices.ContainsFunc(all, func(t tested) bool { return t.Error != "" })
}

// notifyAll sends a test to the configured endpoints. Its resource is called test, so that a cache
// removes nothing.
func notifyAll(c *call, f *flag.FlagSet) action {
	dry := f.Bool("dry-run", false, "print the requests instead, with their secrets masked")
	return func(ctx context.Context) (any, error) {
		cfg, _, err := c.find("notify")
		if err != nil {
			return nil, err
		}
		endpoints, names := cfg.Notify, []string{}
		for _, t := range endpoints {
			names = append(names, t.Name)
		}
		if len(c.args) > 0 {
			at := slices.Index(names, c.args[0])
			if at < 0 {
				return nil, wrongUse("target (argument): want one of those in notify (%s), got %q", strings.Join(names, ", "), c.args[0])
			}
			endpoints = endpoints[at : at+1]
		}
		all := tests{}
		for _, t := range endpoints {
			all = append(all, test(ctx, t, *dry))
		}
		return all, nil
	}
}

// test notifies one endpoint, or says what would be sent.
func test(ctx context.Context, to source.Target, dry bool) (t tested) {
	sender := notify.NewSender(to)
	e := notify.Event{ID: "test", Event: "test", Resource: "test", At: time.Now().UTC().Truncate(time.Millisecond), Reason: "vitrine notify"}
	began := time.Now()
	var err error
	if t.Name, t.Host = to.Name, to.URL.String(); dry {
		t.Request, err = sender.Dump(ctx, e)
	} else {
		err = sender.Send(ctx, e)
		t.Milliseconds = float64(time.Since(began).Milliseconds())
	}
	if err != nil {
		t.Error = err.Error()
	}
	return t
}

// Lines are those of the request.
func (t tested) Lines() []string { return strings.Split(strings.TrimSpace(t.Request), "\n") }
