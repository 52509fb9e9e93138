package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
)

// MasterName is the name of the master of [StartSentinels].
const MasterName = "vitrine-test"

// Sentinels is a master with a replica, and three Sentinels that watch them.
type Sentinels struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// StartSentinels starts the five processes and waits until the Sentinels know each other and the
// replica. The Sentinels consider the master down after half a second.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	g := &Sentinels{Master: Start(t, "--repl-diskless-sync-delay", "0")}
	g.Replica = Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(g.Master.Port))
	for range 3 {
		g.Sentinels = append(g.Sentinels, StartAs(t, func(dir string, port int) []string {
			conf := filepath.Join(dir, "sentinel.conf")
			text := fmt.Sprintf("port %[1]d\nbind 127.0.0.1\ndir %[2]s\nlogfile %[2]s/redis.log\nsentinel monitor %[3]s 127.0.0.1 %[4]d 2\n"+
				"sentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 1000\n", port, dir, MasterName, g.Master.Port)
			testkit.Must(t, os.WriteFile(conf, []byte(text), 0o600))
			return []string{conf, "--sentinel"}
		}))
		// They look for each other every two seconds, unless Redis 7 has another setting.
		_ = g.Sentinels[len(g.Sentinels)-1].Client().Do(t.Context(), "sentinel", "debug", "info-period", 100, "publish-period", 100).Err()
	}
	testkit.Eventually(t, "the Sentinels to know each other and the replica", func() bool {
		for _, s := range g.Sentinels {
			text := fmt.Sprint(s.Client().Do(t.Context(), "sentinel", "master", MasterName).Val())
			if !strings.Contains(text, "num-other-sentinels:2") || !strings.Contains(text, "num-slaves:1") {
				return false
			}
		}
		return true
	})
	return g
}

// URL is the group as a setting.
func (g *Sentinels) URL() string {
	return fmt.Sprintf("redis://%s?master_name=%s&addr=%s&addr=%s", g.Sentinels[0].Addr, MasterName, g.Sentinels[1].Addr, g.Sentinels[2].Addr)
}
