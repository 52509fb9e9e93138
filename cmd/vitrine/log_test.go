package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vitrine/config"
	"vitrine/upstream/shape"
)

func TestTheAccessLogIsSwitchedOnWhateverTheLevelOfTheRest(t *testing.T) {
	for access, want := range map[string]string{
		"on": `"msg":"request",`, "combined": `"GET /cms/rules/ HTTP/1.1" 200 `,
	} {
		path := filepath.Join(t.TempDir(), "access.log")
		vitrine := start(t, "VITRINE_LOG_ACCESS="+access, "VITRINE_LOG_ACCESS_PATH="+path, "VITRINE_LOG_LEVEL=error", "VITRINE_LOG_FORMAT=json")
		vitrine.get(t, shape.Rules)
		if err := vitrine.stop(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(path); err != nil || strings.Count(string(got), "\n") != 1 || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v, logged %s", access, err, got)
		}
	}
	cfg := settings(t, "VITRINE_LOG_ACCESS=combined", "VITRINE_LOG_ACCESS_PATH=/nowhere/access.log")
	p, err := newProcess(t.Context(), cfg.Log, io.Discard, io.Discard)
	if err == nil {
		err = p.begin(t.Context(), cfg)
	}
	if err == nil || !strings.Contains(err.Error(), "VITRINE_LOG_ACCESS_PATH") {
		t.Errorf("a file that cannot be written: %v", err)
	}
}

func TestDurationsInJSONNameTheirUnit(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, config.Log{Level: "info", Format: "json"}).With("wait", 250*time.Millisecond)
	log.Info("stopping", "timeout", 8*time.Second, "delay", time.Duration(0))
	if got := out.String(); !strings.Contains(got, `"wait_seconds":0.25,"timeout_seconds":8,"delay_seconds":0}`) {
		t.Error(got)
	}
}
