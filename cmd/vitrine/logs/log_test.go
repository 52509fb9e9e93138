package logs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"vitrine/config"
)

func TestDurationsInJSONNameTheirUnit(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, config.Log{Level: "info", Format: "json"}).With("wait", 250*time.Millisecond)
	log.Info("stopping", "timeout", 8*time.Second, "delay", time.Duration(0))
	if got := out.String(); !strings.Contains(got, `"wait_seconds":0.25,"timeout_seconds":8,"delay_seconds":0}`) {
		t.Error(got)
	}
}
