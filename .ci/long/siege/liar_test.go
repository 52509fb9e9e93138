package siege

import (
	"bytes"
	"context"
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

// TestARedisThatGoesOnHoldsNobodyUp, neither visitors nor commands nor SIGTERM: it answers with a steady
// stream of bytes, each of which is in time.
func TestARedisThatGoesOnHoldsNobodyUp(t *testing.T) {
	for name, lie := range redistest.Lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := redistest.NewRelay(t, redistest.Start(t).Addr)
			url := "VITRINE_REDIS_URL=" + way.URL()
			vitrine := harness.Serve(t, url, "VITRINE_TTL=1h", "VITRINE_SHUTDOWN_TIMEOUT="+siegeShutdown.String())
			page := "http://" + vitrine.Public + harness.Routes[shape.Banners]
			harness.WaitUntilWell(t, page)
			way.Lie(lie)
			var waited time.Duration
			for elapsed := testkit.Stopwatch(t); elapsed() < 3*time.Second; <-time.After(20 * time.Millisecond) {
				asked := elapsed()
				status, _, _, err := harness.Get(http.DefaultClient, page)
				took := elapsed() - asked
				if waited += took; err != nil || status != http.StatusOK || took > 600*time.Millisecond || waited > 900*time.Millisecond {
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
			began := time.Now()
			vitrine.Stop()
			if took := time.Since(began); took > siegeShutdown+4*time.Second {
				t.Errorf("SIGTERM ended it after %v", took)
			}
		})
	}
}
