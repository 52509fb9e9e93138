package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker for a release: -X main.version=1.2.3.
var version, commit, date string

// versionCommand prints the version.
type versionCommand struct {
	JSON bool `name:"json" help:"Print the version, commit and date of the commit as JSON."`
}

// versionReport is the output of vitrine version --json. Commit and date are empty in a binary that
// was built outside of a repository.
type versionReport struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"` // of the commit, RFC 3339 in UTC
	Go       string `json:"go"`
	Platform string `json:"platform"` // OS/architecture
}

// Run prints one line, or the report as JSON.
func (c versionCommand) Run(p program) error {
	info, _ := debug.ReadBuildInfo()
	report := versionReport{Version: versionOf(version, info), Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		for _, s := range info.Settings { // which the go command left in the binary
			switch s.Key {
			case "vcs.revision":
				report.Commit = cmp.Or(commit, s.Value)
			case "vcs.time":
				report.Date = cmp.Or(date, s.Value)
			}
		}
	}
	if c.JSON {
		return p.printJSON(report)
	}
	_, err := fmt.Fprintln(p.stdout, "vitrine", report.Version, report.Go, report.Platform)
	return err
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
