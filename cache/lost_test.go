package cache

import (
	"context"
	"testing"

	"vitrine/cmd/testkit"
)

func TestALossIsNotNoticedWhileTheCMSIsWell(t *testing.T) {
	server := startRedis(t)
	src, r := serving(t, server.URL())
	warm(t, r)
	src.version.Store(2)
	server.Kill()
	server.Restart()
	eventually(t, "fetched again", func() bool {
		a := get(t, r)
		if a.Status.Detail == DetailRedisLost {
			t.Errorf("got %+v", a.Status)
		}
		return a.Value == 2 && a.Status.Detail == DetailMemory
	})
}

// TestALostDocumentIsRenewedAndStored has the CMS say that the copy that Redis has lost is current.
func TestALostDocumentIsRenewedAndStored(t *testing.T) {
	server := startRedis(t)
	src := newSource()
	renewed := make(chan bool, 10)
	_, r := replica(t, server.URL(), options(LoaderFunc(func(ctx context.Context, key string, held *Document) (Loaded, error) {
		loaded, err := src.Load(ctx, key, held)
		renewed <- loaded.NotModified
		return loaded, err
	})))
	warm(t, r)
	testkit.Receive(t, renewed)
	changed := server.Client().HGet(t.Context(), key, "changed_at").Val()
	server.Kill()
	server.Restart()
	eventually(t, "it is stored", func() bool {
		a := get(t, r)
		stored := server.Client().HGetAll(t.Context(), key).Val()
		return a.Status.Detail == DetailMemory && stored["body"] == string(body(1)) && stored["changed_at"] == changed
	})
	for len(renewed) > 0 {
		if !testkit.Receive(t, renewed) {
			t.Error("it was fetched whole")
		}
	}
}
