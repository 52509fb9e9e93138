package config_test

import (
	"fmt"
	"strings"
	"testing"

	"vitrine/config"
)

func TestChangesNameWhatIsDifferentAndNoSecret(t *testing.T) {
	before := load(t, config.Sources{Environ: []string{
		"VITRINE_UPSTREAM_AUTHORIZATION=Token hunter2", "VITRINE_REDIS_URL=redis://:hunter2@a", "VITRINE_ADMIN_TOKEN=hunter2hunter2",
	}})
	if got := before.Changes(before); len(got) > 0 {
		t.Errorf("nothing changed, and yet %+v", got)
	}
	after := load(t, config.Sources{
		File:    write(t, "ttl: {banners: 5s}\nlisten: :1\nlog: {level: debug}\n"),
		Environ: []string{"VITRINE_UPSTREAM_AUTHORIZATION=Token hunter3", "VITRINE_REDIS_URL=redis://:hunter3@b"},
	})
	var changed []string
	for _, c := range after.Changes(before) {
		if text := fmt.Sprintf("%+v", c); strings.Contains(text, "hunter") || c.Origin == "" {
			t.Errorf("%s", text)
		}
		changed = append(changed, c.Key)
	}
	if got, want := strings.Join(changed, " "), "listen admin.token upstream.authorization redis.url ttl.banners log.level"; got != want {
		t.Errorf("changed: %s, want %s", got, want)
	}
}
