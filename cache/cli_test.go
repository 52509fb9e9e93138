package cache

import (
	"strings"
	"testing"
)

func TestTheRedisCLICommandReachesTheConfiguredStore(t *testing.T) {
	for _, test := range []struct{ url, address, want string }{
		{"redis://localhost", "localhost:6379", "redis-cli -p 6379"},
		{"redis://redis:6379/0", "redis:6379", "redis-cli -h redis -p 6379"},
		{"redis://redis:6379/3", "redis:6379", "redis-cli -h redis -p 6379 -n 3"},
		{"rediss://:hunter2@redis/1", "redis:6379", "redis-cli -h redis -p 6379 --tls -n 1 --askpass"},
		{"redis://app:hunter2@redis", "redis:6379", "redis-cli -h redis -p 6379 --user app --askpass"},
		{"unix:///run/redis.sock?db=2", "/run/redis.sock", "redis-cli -s /run/redis.sock -n 2"},
		{"redis://a:7001?addr=b:7002", "a:7001,b:7002", "redis-cli -h a -p 7001 -c"},
		{"redis://s:26379?master_name=main", "s:26379", "redis-cli -h MASTER"},
	} {
		if got := strings.Join(redisCLI(test.url, test.address), " "); got != test.want {
			t.Errorf("redisCLI(%q, %q) = %q, want %q", test.url, test.address, got, test.want)
		}
	}
}

func TestWordsForAShellAreQuotedWhereTheyHaveTo(t *testing.T) {
	got := openStore(t, "redis://it%27s@127.0.0.1:1").CLI("DEL", "vitrine:banners", "a b", "it's", "")
	if want := `redis-cli -p 1 --user 'it'\''s' DEL vitrine:banners 'a b' 'it'\''s' ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
