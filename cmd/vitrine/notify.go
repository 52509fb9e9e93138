package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"vitrine/config/source"
	"vitrine/proxy/notify"
)

// notifyCommand sends a test to the configured targets. Its resource is called test, so that a
// cache removes nothing.
type notifyCommand struct {
	settingsFlags
	Target *string `arg:"" optional:"" help:"The name of one target; all of them by default."`
	DryRun bool    `help:"Print the requests instead, with their secrets masked."`
}

// Run tells each target, and reports those that could not be told.
func (c *notifyCommand) Run(ctx context.Context, p program) error {
	cfg, _, err := c.find(p, "notify")
	if err != nil {
		return err
	}
	targets, names := cfg.Notify, []string{}
	for _, t := range targets {
		names = append(names, t.Name)
	}
	if c.Target != nil {
		at := slices.Index(names, *c.Target)
		if at < 0 {
			return &usageError{fmt.Errorf("target (argument): want one of those in notify (%s), got %q", strings.Join(names, ", "), *c.Target)}
		}
		targets = targets[at : at+1]
	}
	if len(targets) == 0 {
		_, err := fmt.Fprintln(p.stdout, "nobody is told: the configuration file has no notify")
		return err
	}
	failed := false
	for _, t := range targets {
		line, ok := c.tell(ctx, t)
		failed = failed || !ok
		if _, err := fmt.Fprintln(p.stdout, line); err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// tell tells one target, or says what would be sent.
func (c *notifyCommand) tell(ctx context.Context, t source.Target) (line string, ok bool) {
	sender := notify.NewSender(t)
	defer sender.Close()
	e := notify.Event{ID: "test", Event: "test", Resource: "test", At: time.Now().UTC().Truncate(time.Millisecond), Reason: "vitrine notify"}
	if c.DryRun {
		shown, err := sender.Dump(e)
		return t.Name + ": " + strings.TrimSpace(shown) + "\n", err == nil
	}
	began := time.Now()
	if err := sender.Send(ctx, e); err != nil {
		return fmt.Sprintf("%-10s failed  %v", t.Name, err), false
	}
	return fmt.Sprintf("%-10s told    %s, %v", t.Name, notify.Host(t), time.Since(began).Round(time.Millisecond)), true
}
