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
	settings := buildSettings(info)
	report := versionReport{
		Version:  versionOf(version, info),
		Commit:   cmp.Or(commit, settings["vcs.revision"]),
		Date:     cmp.Or(date, settings["vcs.time"]),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if c.JSON {
		return p.printJSON(report)
	}
	_, err := fmt.Fprintln(p.stdout, "vitrine", report.Version, report.Go, report.Platform)
	return err
}

// versionOf returns the version set by the linker, otherwise the module's version, otherwise the
// commit, otherwise "dev".
func versionOf(linked string, info *debug.BuildInfo) string {
	if linked != "" {
		return linked
	}
	if info == nil {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := buildSettings(info)
	revision := settings["vcs.revision"]
	if revision == "" {
		return "dev"
	}
	revision = revision[:min(12, len(revision))]
	if settings["vcs.modified"] == "true" {
		revision += "+changes"
	}
	return revision
}

// buildSettings are those that the go command left in a binary, by key.
func buildSettings(info *debug.BuildInfo) map[string]string {
	settings := map[string]string{}
	if info != nil {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	return settings
}
