package siege

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"

	"vitrine/cache"
	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// TestAPlantedHistoryCostsNeitherMemoryNorTime has a version of 8 KB that unpacks to 250 MiB, and then
// 300,000 names, in the histories of a vitrine whose CMS publishes.
func TestAPlantedHistoryCostsNeitherMemoryNorTime(t *testing.T) {
	server, cms := redistest.Start(t), upstreamtest.New(t)
	publish := func(id int) { cms.Set(shape.Banners, fmt.Sprintf(`[{"id":%d}]`, id)) }
	publish(1)
	vitrine := harness.Serve(t, "VITRINE_REDIS_URL="+server.URL(), "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_TTL=1h")
	url, client, ctx := "http://"+vitrine.Public+harness.Routes[shape.Banners], server.Client(), context.Background()
	const history = "vitrine:history:{vitrine:banners}"
	// change publishes, and returns the longest time that Redis took for a PING until that was served.
	change := func(id int) (longest time.Duration) {
		t.Helper()
		publish(id)
		testkit.Must(t, client.HSet(ctx, "vitrine:banners", "fresh_until", 0).Err())
		served := func() bool {
			_, _, body, err := harness.Get(http.DefaultClient, url)
			began := time.Now()
			testkit.Check(t, client.Ping(ctx).Err())
			longest = max(longest, time.Since(began))
			return err == nil && strings.HasPrefix(string(body), fmt.Sprintf(`[{"id":%d,`, id))
		}
		testkit.Eventually(t, "the next document is served", served)
		for range 50 { // it is remembered afterwards
			served()
			<-time.After(10 * time.Millisecond)
		}
		return longest
	}
	peak := func() int {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", vitrine.Pid()))
		testkit.Must(t, err)
		_, rest, _ := strings.Cut(string(text), "VmHWM:")
		kb, err := strconv.Atoi(strings.Fields(rest)[0])
		testkit.Must(t, err)
		return kb << 10
	}
	change(2)
	before := peak()

	bomb := bytes.Repeat([]byte(" "), 250<<20)
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	testkit.Must(t, err)
	packed, name := encoder.EncodeAll(bomb, nil), cache.VersionOf(bomb)
	testkit.Must(t, client.HSet(ctx, history, name, fmt.Sprintf(`{"at":%d,"items":1,"bytes":1,"changes":""}`, time.Now().UnixMilli()), name+":body", packed).Err())
	change(3)
	if more := peak() - before; more > 64<<20 {
		t.Errorf("a bomb of %d bytes took %d MB", len(packed), more>>20)
	}
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 300 {
			fields := make([]any, 0, 2000)
			for j := range 1000 {
				fields = append(fields, fmt.Sprintf("%012x", i*1000+j), `{"at":1}`)
			}
			p.HSet(ctx, history, fields...)
		}
		return nil
	})
	testkit.Must(t, err)
	if longest := change(4); longest > time.Second {
		t.Errorf("Redis was blocked for %v", longest)
	}
	testkit.Eventually(t, "the history is small again", func() bool { return client.HLen(ctx, history).Val() <= 100 })
}
