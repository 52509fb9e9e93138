package cache

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"vitrine/cache/redistest"
)

// TestAnExaminationNamesWhatRedisLacks takes away one thing after the other.
func TestAnExaminationNamesWhatRedisLacks(t *testing.T) {
	t.Parallel()
	well := []string{"--appendonly", "yes", "--maxmemory", "64mb"}
	user := func(rights string) func(*testing.T, *redistest.Server) {
		return func(t *testing.T, s *redistest.Server) {
			args := []any{"ACL", "SETUSER", "default", "reset", "on", "nopass"}
			for right := range strings.FieldsSeq(rights) {
				if redistest.Major(t) >= 7 || !strings.HasSuffix(right, "_ro") { // before, there is no such command
					args = append(args, right)
				}
			}
			must(t, s.Client().Do(t.Context(), args...).Err())
		}
	}
	const all = "~vitrine:* +@all"
	for name, c := range map[string]struct {
		args  []string
		worse func(*testing.T, *redistest.Server)
		want  []string // parts of each lack
	}{
		"nothing":               {args: well},
		"the documented rights": {args: well, worse: user(documentedRights(t))},
		"persistence":           {want: []string{"persistence: appendonly no: a restart loses the documents"}},
		"eviction": {
			args: slices.Concat(well, []string{"--maxmemory-policy", "allkeys-lru"}),
			want: []string{"eviction: maxmemory-policy allkeys-lru: an evicted document counts as purged"},
		},
		"memory": {
			args: append(slices.Clone(well[:2]), "--maxmemory", "1"),
			want: []string{"writes: OOM", "nothing is stored"},
		},
		"two rights": {args: well, worse: user(all + " -hset -info"), want: []string{
			"rights: not permitted: hset: nothing is stored", "rights: not permitted: info: another server",
		}},
		"renamed": {args: slices.Concat(well, []string{"--rename-command", "EVALSHA", "hidden", "--rename-command", "INFO", "hidden2"}), want: []string{
			"commands: renamed, or not there: evalsha: nothing is stored", "commands: renamed, or not there: info: another server",
		}},
		"keys":  {args: well, worse: user("~other:* +@all"), want: []string{"rights: not permitted: hset"}},
		"bound": {args: well, want: []string{"latency: "}},
		"a master": {args: well, worse: func(t *testing.T, s *redistest.Server) {
			must(t, s.Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
		}, want: []string{"writes: READONLY"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t, c.args...)
			if c.worse != nil {
				c.worse(t, server)
			}
			o := Options{URL: server.URL(), PurgeBound: time.Minute} // however busy the machine is
			if name == "bound" {
				o.PurgeBound = time.Nanosecond
			}
			s, err := Open(t.Context(), o)
			must(t, err)
			defer func() { must(t, s.Close()) }()
			e, err := s.Examine(t.Context())
			must(t, err)
			if name == "bound" {
				c.want = append(c.want, fmt.Sprintf("every request waits for it; redis.purge_bound %v would do", s.Enough(e.RoundTrip)))
			}
			checkLacks(t, e, c.want...)
		})
	}
}

// TestAnExaminationReadsVersionAndClock has the replies of several servers.
func TestAnExaminationReadsVersionAndClock(t *testing.T) {
	for info, want := range map[string][]string{
		"redis_version:5.0.14": {"version: 5.0.14, before 6.2"},
		"redis_version:6.0.16": {"version: 6.0.16, before 6.2"},
		"redis_version:6.2.0":  nil,
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.0.0": nil,
	} {
		var e Examination
		e.examineInfo(redis.NewCmdResult("# Server\r\n"+info+"\r\n", nil))
		checkLacks(t, e, want...)
		if strings.Contains(info, "valkey") && e.Version != "Valkey 9.0.0" {
			t.Errorf("Valkey 9 is called %s", e.Version)
		}
	}
	var e Examination
	e.examineClock(redis.NewCmdResult([]any{strconv.FormatInt(time.Now().Unix()-60, 10), "0"}, nil), time.Millisecond)
	checkLacks(t, e, "clock: -1m", "Last-Modified")
}

// checkLacks wants each lack to be said, and none where there is none.
func checkLacks(t *testing.T, e Examination, want ...string) {
	t.Helper()
	var got strings.Builder
	for _, lack := range e.Lacks {
		got.WriteString(lack.What + ": " + lack.Found + ": " + lack.So + "\n")
	}
	t.Logf("Redis %s, %v: %s", e.Version, e.RoundTrip, got.String())
	for _, want := range want {
		if !strings.Contains(got.String(), want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if len(want) == 0 && got.Len() > 0 {
		t.Error("nothing lacks")
	}
}

// documentedRights are what docs/purging.md tells operators to give.
func documentedRights(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/purging.md")
	must(t, err)
	_, rights, _ := strings.Cut(string(text), "redis-cli ACL SETUSER vitrine on '>PASSWORD' ")
	rights, _, found := strings.Cut(rights, "\n```")
	if !found {
		t.Fatal("docs/purging.md has no ACL")
	}
	rights = strings.NewReplacer("'", "", "\\\n", "").Replace(rights)
	return strings.Join(strings.Fields(rights), " ")
}
