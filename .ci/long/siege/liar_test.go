package siege

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// liarBudget is the memory of a process whose Redis and endpoint lie.
const liarBudget = 100_000_000

// TestARedisThatGoesOnHoldsNobodyUp, neither visitors nor commands nor SIGTERM, and fills no memory: it
// answers with a steady stream of bytes, each of which is in time. Its keys are planted, and the endpoint
// switches protocols and is silent.
func TestARedisThatGoesOnHoldsNobodyUp(t *testing.T) {
	endpoint := testkit.Accept(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4<<10))
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	config := harness.File(t, "vitrine.yaml", "notify: [{name: hook, preset: webhook, url: 'http://"+endpoint+"'}]\n")
	for name, lie := range redistest.Lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			way := redistest.NewRelay(t, server.Addr)
			url := "VITRINE_REDIS_URL=" + way.URL()
			vitrine := harness.Serve(t, url, "VITRINE_CONFIG="+config, "VITRINE_TTL=1h", "VITRINE_SHUTDOWN_TIMEOUT="+siegeShutdown.String())
			page := "http://" + vitrine.Public + harness.Routes[shape.Banners]
			harness.WaitUntilWell(t, page)
			ahead, long := time.Now().Add(time.Hour).UnixMilli(), strings.Repeat("x", 1<<20)
			testkit.Must(t, server.Client().HSet(t.Context(), "vitrine:lease:{vitrine:banners}", "held_since", ahead, "held_seq", "999999999999999",
				"held_findings", long, "purged_by", long, "released", long, "wanted_until", "999999999999999", "sources", long).Err())
			most := watch(vitrine.Pid(), 20*time.Millisecond)
			way.Lie(lie)
			var waited time.Duration
			for elapsed := testkit.Stopwatch(t); elapsed() < 3*time.Second; <-time.After(20 * time.Millisecond) {
				asked := elapsed()
				status, _, _, err := harness.Get(http.DefaultClient, page)
				took := elapsed() - asked
				if took > 100*time.Millisecond { // less is a busy machine's
					waited += took
				}
				if err != nil || status != http.StatusOK || took > 600*time.Millisecond || waited > 900*time.Millisecond {
					t.Fatalf("a visitor: %d, %v after %v, %v in all", status, err, took, waited)
				}
			}
			for _, args := range []string{
				"history", "history banners 0123456789ab", "restore banners 0123456789ab", "restore banners latest", "accept banners",
				"purge", "purge --soft banners", "purge --history banners", "check", "check --diff",
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				command := exec.CommandContext(ctx, "vitrine", strings.Fields(args)...)
				command.Env = append(os.Environ(), url)
				var said bytes.Buffer
				command.Stdout, command.Stderr = &said, &said
				began := time.Now()
				err := command.Run()
				cancel()
				if took := time.Since(began); err == nil || took > 11*time.Second || said.Len() == 0 {
					t.Errorf("vitrine %s: %v after %v: %.200s", args, err, took, &said)
				}
			}
			if memory := most(); memory > liarBudget {
				t.Errorf("%d bytes of memory, want at most %d", memory, liarBudget)
			}
			began := time.Now()
			vitrine.Stop()
			if took := time.Since(began); took > siegeShutdown+4*time.Second {
				t.Errorf("SIGTERM ended it after %v", took)
			}
		})
	}
}
