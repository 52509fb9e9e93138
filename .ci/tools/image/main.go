// Command image packs a linux binary as the Dockerfile does, without an engine and the same byte
// for byte each time: an archive that docker load, podman load, skopeo and crane read.
//
//	image -version 1.2.3 -date 2026-11-21T00:00:00Z -arch amd64 \
//	  -add FILE=/path... -own /folder -o vitrine.image.tar
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const user = 65532 // and its group

// config is that of the Dockerfile; .ci/swarm compares the two.
var config = v1.Config{
	User:         fmt.Sprintf("%d:%[1]d", user),
	ExposedPorts: map[string]struct{}{"8080/tcp": {}},
	Healthcheck: &v1.HealthConfig{
		Test: []string{"CMD", "/vitrine", "healthcheck"}, Interval: 10 * time.Second, Timeout: 3 * time.Second,
		StartPeriod: 10 * time.Second, Retries: 3,
	},
	Entrypoint: []string{"/vitrine"},
	Cmd:        []string{"serve"},
	Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
}

func main() {
	version := flag.String("version", "", "`version`, the image's tag")
	date := flag.String("date", "", "`time` of all that is in it, RFC 3339 in UTC")
	arch := flag.String("arch", "", "`architecture` of the binary, as GOARCH has it")
	out := flag.String("o", "", "`file` to write")
	var files []string
	flag.Func("add", "`FILE=PATH`: a file, and its path in the image; repeatable", func(s string) error {
		if !strings.Contains(s, "=/") {
			return errors.New("want FILE=/path")
		}
		files = append(files, s)
		return nil
	})
	own := flag.String("own", "", "`PATH` of an empty folder that belongs to the image's user")
	flag.Parse()
	if err := run(*version, *date, *arch, *out, *own, files); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(version, date, arch, out, own string, files []string) error {
	made, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	content, err := pack(made, own, files)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return err
	}
	diffID, err := layer.DiffID()
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: made}, Config: config,
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diffID}},
		History: []v1.History{{Created: v1.Time{Time: made}, CreatedBy: "vitrine " + version}},
	})
	if err != nil {
		return err
	}
	tag, err := name.NewTag("vitrine:" + version)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(out, tag, image)
}

// pack makes the one layer: the files, the folder own, and the folders that lead to them. All but
// own is root's, and readable by everybody.
func pack(made time.Time, own string, files []string) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	folders := map[string]bool{".": true}
	add := func(to string, mode int64, content []byte) error {
		for at, c := range to {
			folder := to[:at]
			if c != '/' || folders[folder] {
				continue
			}
			folders[folder] = true
			header := &tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: made}
			if folder == strings.TrimPrefix(own, "/") {
				header.Uid, header.Gid = user, user
			}
			if err := w.WriteHeader(header); err != nil {
				return err
			}
		}
		if strings.HasSuffix(to, "/") {
			return nil
		}
		if err := w.WriteHeader(&tar.Header{Name: to, Mode: mode, Size: int64(len(content)), ModTime: made}); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	for _, file := range files {
		from, to, _ := strings.Cut(file, "=/")
		info, err := os.Stat(from)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		if err := add(to, mode, content); err != nil {
			return nil, err
		}
	}
	if own != "" {
		if err := add(strings.TrimPrefix(own, "/")+"/", 0, nil); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
