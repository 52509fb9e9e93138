package main

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsTheBestThatIsKnown(t *testing.T) {
	for _, test := range []struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v1.4.0"}}, "1.2.3"},
		{"", &debug.BuildInfo{Main: debug.Module{Version: "v1.4.0"}}, "v1.4.0"},
		{"", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "dev"},
		{"", nil, "dev"},
	} {
		if got := versionOf(test.linked, test.info); got != test.want {
			t.Errorf("versionOf(%q, %+v) = %q, want %q", test.linked, test.info, got, test.want)
		}
	}
}
