package main

import (
	"cmp"
	"context"
	"flag"
	"runtime"
	"runtime/debug"
)

// Set by the linker for a release: -X main.version=1.2.3.
var version, commit, date string

// build says what this binary is. Commit and date are empty if it was built outside of a repository.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"` // of the commit, RFC 3339 in UTC
	Go       string `json:"go"`
	Platform string `json:"platform"` // OS/architecture
}

func showVersion(*call, *flag.FlagSet) action {
	return func(context.Context) (any, error) {
		b := build{Version: release(), Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings { // which the go command left in the binary
				switch s.Key {
				case "vcs.revision":
					b.Commit = cmp.Or(commit, s.Value)
				case "vcs.time":
					b.Date = cmp.Or(date, s.Value)
				}
			}
		}
		return b, nil
	}
}

// release is the version of this binary: the one set by the linker, otherwise that of the module, which
// the go command derives from the commit, otherwise "dev".
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return cmp.Or(version, "dev")
	}
	return cmp.Or(version, info.Main.Version, "dev")
}
