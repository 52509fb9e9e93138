// Command bom writes what released binaries are made of: for each a CycloneDX document
// BINARY.cdx.json of what go version -m says, and one file with the licence texts of all modules. A
// module whose licence is not recognized is an error: it has to be read before it is handed
// on.
//
//	bom -version 1.2.3 -date 2026-11-21T00:00:00Z -licences FILE BINARY...
package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

func main() {
	version := flag.String("version", "", "`version` of the binaries")
	date := flag.String("date", "", "`time` to put into the documents, RFC 3339 in UTC")
	licences := flag.String("licences", "", "`file` to write the licence texts to")
	flag.Parse()
	if err := run(*version, *date, *licences, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bom:", err)
		os.Exit(1)
	}
}

// component is a module in a binary, or the standard library.
type component struct {
	path, version, sum string // sum is go.sum's h1, empty for the standard library
	licence            string // an SPDX expression
	text               []byte
}

func (c component) url() string {
	return "pkg:golang/" + strings.ToLower(c.path) + "@" + c.version
}

func run(version, date, licences string, binaries []string) error {
	all := map[string]component{}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return err
		}
		components, err := read(info, all)
		if err != nil {
			return err
		}
		if err := writeSBOM(binary, version, date, components); err != nil {
			return err
		}
	}
	return writeLicences(licences, all)
}

// read returns the components of one binary, in the order of their paths, and adds them to all.
func read(info *debug.BuildInfo, all map[string]component) ([]component, error) {
	found := []component{{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		m = cmp.Or(m.Replace, m)
		found = append(found, component{path: m.Path, version: m.Version, sum: m.Sum})
	}
	folders, err := sources(found[1:])
	if err != nil {
		return nil, err
	}
	goroot, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output() // it built the binaries
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	folders[found[0].url()] = strings.TrimSpace(string(goroot))
	var failed error
	for i, c := range found {
		known, ok := all[c.url()]
		if !ok {
			if known, err = c.licensed(folders[c.url()]); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s@%s: %w", c.path, c.version, err))
			}
			all[c.url()] = known
		}
		found[i] = known
	}
	return found, failed
}

// sources returns the folder of each module's source, by the module's URL.
func sources(modules []component) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.path+"@"+m.version)
	}
	out, err := exec.CommandContext(context.Background(), "go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}
	folders := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var module struct{ Path, Version, Dir string }
		if err := decoder.Decode(&module); err != nil {
			return nil, err
		}
		folders[component{path: module.Path, version: module.Version}.url()] = module.Dir
	}
	return folders, nil
}

// licensed adds the licence: the texts in the root of its source, NOTICE included.
func (c component) licensed(folder string) (component, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return c, err
	}
	names := map[string]bool{}
	for _, entry := range entries {
		upper := strings.ToUpper(entry.Name())
		if entry.IsDir() || !strings.HasPrefix(upper, "LICEN") && !strings.HasPrefix(upper, "COPYING") && upper != "NOTICE" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return c, err
		}
		c.text = append(append(c.text, bytes.TrimSpace(text)...), "\n\n"...)
		for _, match := range licensecheck.Scan(text).Match {
			names[match.ID] = true
		}
	}
	if len(names) == 0 {
		return c, fmt.Errorf("no known licence in %s", folder)
	}
	c.licence = strings.Join(slices.Sorted(maps.Keys(names)), " AND ")
	return c, nil
}

func writeSBOM(binary, version, date string, components []component) error {
	listed := make([]cyclonedx.Component, 0, len(components))
	needs := make([]string, 0, len(components))
	for _, c := range components {
		entry := cyclonedx.Component{
			BOMRef: c.url(), Type: cyclonedx.ComponentTypeLibrary, Name: c.path, Version: c.version, PackageURL: c.url(),
			Licenses: &cyclonedx.Licenses{{Expression: c.licence}},
		}
		if c.sum != "" {
			sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(c.sum, "h1:"))
			if err != nil {
				return err
			}
			entry.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		listed, needs = append(listed, entry), append(needs, c.url())
	}
	product := cyclonedx.Component{
		BOMRef: "vitrine", Type: cyclonedx.ComponentTypeApplication, Name: filepath.Base(binary), Version: version,
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: date, Component: &product}
	bom.Components = &listed
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: product.BOMRef, Dependencies: &needs}}
	return write(binary+".cdx.json", func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	})
}

// writeLicences writes a table of all modules, then their licence texts.
func writeLicences(path string, all map[string]component) error {
	return write(path, func(w io.Writer) error {
		urls := slices.Sorted(maps.Keys(all))
		for _, url := range urls {
			if _, err := fmt.Fprintf(w, "%s %s  %s\n", all[url].path, all[url].version, all[url].licence); err != nil {
				return err
			}
		}
		for _, url := range urls {
			if _, err := fmt.Fprintf(w, "\n%s\n%s %s\n\n%s", strings.Repeat("=", 80), all[url].path, all[url].version, all[url].text); err != nil {
				return err
			}
		}
		return nil
	})
}

func write(path string, fill func(io.Writer) error) error {
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644) //nolint:gosec // what is released is for everybody
}
