package main

import (
	"bytes"
	"strings"
	"testing"

	"vitrine/config"
)

func TestTheAccessLogIsSwitchedOnWhateverTheLevelOfTheRest(t *testing.T) {
	var out bytes.Buffer
	c := config.Log{Level: "error", Format: "json", Access: "on"}
	log := newLogger(&out, c)
	log.Warn("too small a matter")
	accessLog(log, c).Info("request", "status", 200)
	if got := out.String(); strings.Contains(got, "matter") || !strings.Contains(got, `"msg":"request","status":200`) {
		t.Errorf("logged %s", got)
	}
	c.Access = "off"
	if accessLog(log, c) != nil {
		t.Error("there is an access log that is off")
	}
}
