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
		info, _ := debug.ReadBuildInfo()
		b := build{Version: versionOf(version, info), Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if info != nil {
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

// release is the version of this binary.
func release() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(version, info)
}

// versionOf returns the version set by the linker, otherwise that of the module, which the go
// command derives from the commit, otherwise "dev".
func versionOf(linked string, info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "(devel)" {
		return cmp.Or(linked, "dev")
	}
	return cmp.Or(linked, info.Main.Version, "dev")
}
