package cache

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/lease"
	"vitrine/cache/poll"
)

// An Examination is what Redis is, and what it lacks.
type Examination struct {
	Version   string // "" if Redis does not say
	RoundTrip time.Duration
	Lacks     []Lack
}

// A Lack is something that Redis does not give.
type Lack struct {
	// What is version, rights, commands, writes, eviction, persistence, latency or clock.
	What  string `json:"what"`
	Found string `json:"found"`
	// So is the consequence.
	So string `json:"so"`
}

// What follows from the lack of a right, or of more.
const (
	soAlone     = "nothing is stored: each process fetches for itself, and a restart begins with nothing"
	soBlind     = "another server at the same address is noticed late"
	soForgotten = "what is served now cannot be had back once it is replaced"
)

// uses are the commands that vitrine needs, on KEY and the one LOCK it.
var uses = []struct{ command, so string }{
	{"hello", soBlind},
	{"info", soBlind},
	{"time", soAlone},
	{"eval return{1} 0", soAlone},
	{"evalsha " + redis.NewScript("return{1}").Hash() + " 0", soAlone},
	{"hset KEY a 1 b 2", soAlone},
	{"pexpire KEY 1000", soAlone},
	{"pexpireat KEY 99999999999999", soAlone},
	{"pttl KEY", soAlone},
	{"hlen KEY", soForgotten},
	{"type KEY", soAlone},
	{"hget KEY a", soAlone},
	{"hmget KEY a b", soAlone},
	{"hkeys KEY", soForgotten},
	{"hstrlen KEY a", soAlone},
	{"hdel KEY a", soAlone},
	{"set LOCK 1", soAlone},
	{"del KEY LOCK", soAlone},
}

// clockSkew is how far Redis's clock may be from this machine's.
const clockSkew = time.Second

// Examine tries everything that vitrine does in Redis once, with a key that no replica uses, and
// removes it again. It fails if Redis cannot be reached.
func (s *Store) Examine(ctx context.Context) (Examination, error) {
	const name = "check"
	return call(ctx, s, name, func(ctx context.Context, c *redis.Client) (Examination, error) { return s.examine(ctx, c, name) })
}

func (s *Store) examine(ctx context.Context, client *redis.Client, name string) (e Examination, err error) {
	for try := range 6 { // the first one connects; a busy machine is no distance
		began := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			return e, err
		}
		if took := time.Since(began); try == 1 || took < e.RoundTrip {
			e.RoundTrip = took
		}
	}
	if enough := s.Enough(e.RoundTrip); enough > 0 {
		e.lacks("latency", fmt.Sprintf("%v, too far away for redis.purge_bound %v", e.RoundTrip.Round(time.Millisecond), s.o.PurgeBound),
			fmt.Sprintf("every request waits for it; redis.purge_bound %v would do", enough))
	}

	var args [][]any
	for _, use := range uses {
		var words []any
		for word := range strings.FieldsSeq(use.command) {
			words = append(words, strings.NewReplacer("KEY", s.o.Prefix+name, "LOCK", lease.Lock(s.o.Prefix, name)).Replace(word))
		}
		args = append(args, words)
	}
	began := time.Now()
	replies, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, words := range args {
			p.Do(ctx, words...)
		}
		return nil
	})
	took := time.Since(began)
	if err != nil && !poll.Replied(err) {
		return e, err
	}
	replied := map[string]*redis.Cmd{}
	denied, unknown, refused := map[string]string{}, map[string]string{}, ""
	for i, reply := range replies {
		use := uses[i]
		word, _, _ := strings.Cut(use.command, " ")
		replied[word], _ = reply.(*redis.Cmd)
		switch err := reply.Err(); {
		case err == nil, errors.Is(err, redis.Nil):
		case strings.HasPrefix(err.Error(), "NOPERM"):
			denied[use.so] += " " + word
		case strings.HasPrefix(err.Error(), "ERR unknown command"): // renamed, most likely
			unknown[use.so] += " " + word
		case !strings.HasPrefix(err.Error(), "NOSCRIPT") && refused == "": // without eval there is no script
			refused = err.Error()
		}
	}
	for _, so := range []string{soAlone, soBlind, soForgotten} {
		if denied[so] != "" {
			e.lacks("rights", "not permitted:"+denied[so], so)
		}
		if unknown[so] != "" {
			e.lacks("commands", "renamed, or not there:"+unknown[so], so)
		}
	}
	if refused != "" {
		e.lacks("writes", refused, soAlone)
	}
	e.examineInfo(replied["info"])
	e.examineClock(replied["time"], took)
	return e, nil
}

// examineInfo reads what Redis says of itself.
func (e *Examination) examineInfo(reply *redis.Cmd) {
	text, err := reply.Text()
	if err != nil {
		return
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	e.Version = info["redis_version"]
	var major, minor int
	if _, err := fmt.Sscanf(e.Version, "%d.%d", &major, &minor); err == nil && (major < 6 || major == 6 && minor < 2) {
		e.lacks("version", e.Version+", before 6.2", "nothing is known to work")
	}
	if fork := info["valkey_version"]; fork != "" { // redis_version is the one that it is compatible with
		e.Version = "Valkey " + fork
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" && info["maxmemory"] != "0" {
		e.lacks("eviction", "maxmemory-policy "+policy, "an evicted document counts as purged, and is not served when the CMS fails")
	}
	if info["aof_enabled"] == "0" {
		e.lacks("persistence", "appendonly no", "a restart loses the documents, or brings back older ones with what was purged since")
	}
}

// examineClock compares Redis's clock with this machine's, now that the reply that took so long is
// here.
func (e *Examination) examineClock(reply *redis.Cmd, took time.Duration) {
	words, err := reply.StringSlice()
	if err != nil || len(words) == 0 {
		return
	}
	seconds, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return
	}
	if ahead := time.Until(time.Unix(seconds, 0)); ahead.Abs() > clockSkew+took+time.Second {
		e.lacks("clock", fmt.Sprintf("%v ahead of this machine's", ahead.Round(time.Second)),
			"Last-Modified, and the age of the last good files, are off by as much")
	}
}

func (e *Examination) lacks(what, found, so string) { e.Lacks = append(e.Lacks, Lack{what, found, so}) }
