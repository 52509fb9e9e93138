package service

import "testing"

func TestTheRedisCLICommandReachesTheConfiguredStore(t *testing.T) {
	for url, want := range map[string]string{
		"redis://":                         "redis-cli -p 6379",
		"redis://localhost":                "redis-cli -p 6379",
		"redis://redis:6379/0":             "redis-cli -h redis -p 6379",
		"redis://redis:6379/3":             "redis-cli -h redis -p 6379 -n 3",
		"redis://[::1]:7000":               "redis-cli -h ::1 -p 7000",
		"rediss://:hunter2@redis/1":        "redis-cli -h redis -p 6379 --tls -n 1 --askpass",
		"redis://app:hunter2@redis":        "redis-cli -h redis -p 6379 --user app --askpass",
		"unix:///run/redis.sock?db=2":      "redis-cli -s /run/redis.sock -n 2",
		"redis://a:7001?addr=b:7002":       "redis-cli -h a -p 7001 -c",
		"redis://s:26379?master_name=main": "redis-cli -h MASTER",
	} {
		if got := redisCLI(url); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}

func TestWordsForAShellAreQuotedWhereTheyHaveTo(t *testing.T) {
	got := redisCLI("redis://it%27s@127.0.0.1:1", "DEL", "vitrine:banners", "a b", "it's", "")
	if want := `redis-cli -p 1 --user 'it'\''s' DEL vitrine:banners 'a b' 'it'\''s' ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
