package config

import (
	"io/fs"
	"slices"
	"strings"

	bundled "vitrine/upstream/presets"
)

// presets are the names of those in the program.
var presets = presetNames(bundled.FS)

// Presets are the names of the program's own presets.
func Presets() []string { return slices.Clone(presets) }

func presetNames(of fs.FS) (names []string) {
	files, _ := fs.Glob(of, "*.yaml") // a pattern that is right
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".yaml"))
	}
	return names
}

// isPresetFile reports whether the value of upstream.preset names a file.
func isPresetFile(name string) bool {
	return strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml")
}

// checkPreset allows the names of presets and of files.
func checkPreset(name string) error {
	if !slices.Contains(presets, name) && !isPresetFile(name) {
		return errUnsaid
	}
	return nil
}
