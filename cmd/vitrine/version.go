package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for a release: -X main.version=1.2.3.
var version string

// versionCommand prints the version.
type versionCommand struct{}

// Help shows what to type.
func (versionCommand) Help() string { return examples("vitrine version") }

// Run prints one line.
func (versionCommand) Run(p program) error {
	info, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintf(p.stdout, "vitrine %s %s %s/%s\n", versionOf(version, info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
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
