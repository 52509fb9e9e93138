package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Notice is a state of a resource of which an endpoint is notified once, by one replica.
type Notice struct {
	Resource, Endpoint string // Endpoint has no blanks
	Topic              Topic
	// Set and Seq order the notices of a topic: one is known if a later one was sent.
	Set string
	Seq int64
	// Value is the state, without blanks; a purge has none. An endpoint that has the value needs no
	// other notice of it, unless it lacks the purge of this number; 0 for none.
	Value string
	Purge int64
}

// A Topic is a sequence of states.
type Topic string

// The topics.
const (
	TopicContent Topic = "content" // Seq is the document's, or that of the placeholder after a purge
	TopicOutage  Topic = "outage"  // twice the document's, and one while fetches fail: Value says which
	TopicHold    Topic = "hold"    // twice its beginning in Unix milliseconds, and one after its end
)

// The values of the topic outage. Nobody is notified that nothing failed.
const (
	Failing = "failing"
	Well    = "well"
)

// The outcomes of [Notice.Send], beside [Granted]: it was sent, or that has failed.
const (
	Busy     Outcome = "busy"     // another replica notifies, or a pause is not over
	Notified Outcome = "notified" // this or something later was sent already
)

// SendTime is how long one attempt may take.
const SendTime = 5 * time.Second

// markTime is how long the mark of a replica lasts that sends; it may have died.
const markTime = SendTime + time.Second

// A NotifyState is what the lock record says about an endpoint.
type NotifyState struct {
	Outcome  Outcome
	Left     time.Duration // of another's mark, or of the pause
	Failures int           // in a row
	// Seq, Value and At are of the last notice of the topic; At is on this process's clock. Zero if
	// there was none.
	Seq   int64
	Value string
	At    time.Time
}

// Send has one replica notify: it marks that in the lock record, unless another has, or the notice is
// known, and calls send, which returns whether the endpoint is notified, and for how long nobody
// notifies it then; and records that. Do calls a function with the server of the resource.
func (n *Notice) Send(ctx context.Context, prefix string, do func(context.Context, func(context.Context, *redis.Client) error) error, send func(NotifyState) (sent bool, pause time.Duration)) (NotifyState, error) {
	token, began := strconv.FormatUint(rand.Uint64(), 36), time.Now()
	state, err := n.step(ctx, prefix, do, "begin", token, markTime, 0)
	switch {
	case err != nil || state.Outcome != Granted:
		return state, err
	case time.Since(began) > markTime-SendTime: // the mark might lapse before the request is answered
		state.Outcome, state.Left = Busy, 0
		return state, nil
	}
	step, failures := "sent", 0
	sent, pause := send(state)
	if !sent {
		if step, failures = "failed", state.Failures; pause > 0 { // else ctx has ended
			failures++
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTime-SendTime)
	defer cancel()
	_, _ = n.step(ctx, prefix, do, step, token, pause, failures) // if it fails, another replica may send the notice again
	return state, nil
}

// step runs the script: the mark, or the pause after it, lasts so long.
func (n *Notice) step(ctx context.Context, prefix string, do func(context.Context, func(context.Context, *redis.Client) error) error, step, token string, lasting time.Duration, failures int) (state NotifyState, err error) {
	err = do(ctx, func(ctx context.Context, c *redis.Client) error {
		r, err := run(ctx, c, scripts["notify"], []string{prefix + n.Resource, Lock(prefix, n.Resource)}, n.Endpoint, string(n.Topic), n.Set, n.Seq, n.Value, n.Purge,
			step, token, lasting.Milliseconds(), failures)
		if err != nil {
			return fmt.Errorf("notify: %w", err)
		}
		state = NotifyState{Outcome: Outcome(r.text(0)), Left: r.millis(1), Failures: int(r.int(2)), Seq: r.int(3), Value: r.text(4)}
		if at := r.int(5); at > 0 {
			state.At = time.Now().Add(time.Duration(at-r.int(6)) * time.Millisecond)
		}
		return nil
	})
	return state, err
}
