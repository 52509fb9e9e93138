package lease

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Notice is something of a resource that a target is to be told once, by one process.
type Notice struct {
	Resource, Target string
	// Topic separates what is told of a resource: a notice is told if a later one of its topic was.
	Topic string
	// Set and Seq are the place at which it holds. A Seq of 0 is told if Value was.
	Set string
	Seq int64
	// Value is the state after it, without blanks; "" leaves the one before. Once says that the same
	// value need not be told again, whatever its Seq.
	Value string
	Once  bool
}

// The outcomes of [Claim.Write] beside [Granted], [Held] and [Lost].
const (
	Paused Outcome = "paused" // telling this target failed, and it is too early to try again
	Told   Outcome = "told"   // this or something later was told already
)

// A Claim is the right to tell a target of a notice, or the reason why it was not granted.
type Claim struct {
	Notice
	Outcome  Outcome
	Token    string
	Left     time.Duration // of another's claim, or of the pause
	Failures int           // to tell this target, in a row
	// What was told of the topic, and when; zero if nothing was. ToldEmpty says that it had no
	// value, and ToldValue is that of before. ToldAt is by this process's clock.
	ToldSeq   int64
	ToldValue string
	ToldEmpty bool
	ToldAt    time.Time
}

// Write takes the claim for so long, unless it was told or another process has it. If its outcome is
// [Told], or [Failed] after so many failures in a row, it ends the claim, and the target is told
// nothing else of the resource for so long. Processes agree on that in a hash beside the document,
// which is not tracked.
func (claim Claim) Write(ctx context.Context, c redis.Scripter, prefix string, lasting time.Duration) (Claim, error) {
	n := claim.Notice
	r, err := notify.run(ctx, c, n.Resource, []string{prefix + "notify:{" + prefix + n.Resource + "}"},
		n.Target, claim.Token, lasting.Milliseconds(), n.Topic, n.Set, n.Seq, n.Value, n.Once, string(claim.Outcome), claim.Failures)
	claim.Outcome, claim.Left, claim.Failures = Outcome(r.text(0)), r.millis(1), int(r.int(2))
	if said := strings.Split(r.text(3), " "); len(said) == 4 {
		claim.ToldSeq, _ = strconv.ParseInt(said[0], 10, 64)
		claim.ToldValue, claim.ToldEmpty = strings.CutPrefix(said[2], "-")
		if at, err := strconv.ParseInt(said[3], 10, 64); err == nil {
			claim.ToldAt = time.Now().Add(time.Duration(at-r.int(4)) * time.Millisecond)
		}
	}
	return claim, err
}
