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

// needs are the commands that vitrine needs, on KEY and the one LOCK it, by what follows without them.
var needs = []struct{ so, commands string }{
	{soAlone, "time,eval return{1} 0,evalsha " + redis.NewScript("return{1}").Hash() + " 0,hset KEY a 1 b 2,pexpire KEY 1000,pexpireat KEY 99999999999999,pttl KEY," +
		"type KEY,hget KEY a,hmget KEY a b,hstrlen KEY a,hdel KEY a,set LOCK 1,del KEY LOCK"},
	{soBlind, "hello,info"},
	{soForgotten, "hlen KEY,hkeys KEY"},
}

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

	place, replied, refused := strings.NewReplacer("KEY", s.o.Prefix+name, "LOCK", lease.Lock(s.o.Prefix, name)), map[string]*redis.Cmd{}, ""
	began, all := time.Now(), client.Pipeline()
	for _, need := range needs {
		for command := range strings.SplitSeq(need.commands, ",") {
			var words []any
			for word := range strings.FieldsSeq(place.Replace(command)) {
				words = append(words, word)
			}
			replied[command] = all.Do(ctx, words...)
		}
	}
	if _, err := all.Exec(ctx); err != nil && !poll.Replied(err) {
		return e, err
	}
	took := time.Since(began)
	for _, need := range needs {
		denied, unknown := "", ""
		for command := range strings.SplitSeq(need.commands, ",") {
			word, _, _ := strings.Cut(command, " ")
			switch err := replied[command].Err(); {
			case err == nil, errors.Is(err, redis.Nil), strings.HasPrefix(err.Error(), "NOSCRIPT"): // without eval there is no script
			case strings.HasPrefix(err.Error(), "NOPERM"):
				denied += " " + word
			case strings.HasPrefix(err.Error(), "ERR unknown command"): // renamed, most likely
				unknown += " " + word
			case refused == "":
				refused = err.Error()
			}
		}
		if denied != "" {
			e.lacks("rights", "not permitted:"+denied, need.so)
		}
		if unknown != "" {
			e.lacks("commands", "renamed, or not there:"+unknown, need.so)
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
	if ahead := time.Until(time.Unix(seconds, 0)); ahead.Abs() > 2*time.Second+took { // of which one is not said
		e.lacks("clock", fmt.Sprintf("%v ahead of this machine's", ahead.Round(time.Second)),
			"Last-Modified, and the age of the last good files, are off by as much")
	}
}

func (e *Examination) lacks(what, found, so string) { e.Lacks = append(e.Lacks, Lack{what, found, so}) }
