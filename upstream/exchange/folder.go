package exchange

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// folder is a transport that serves saved responses as a CMS would:
//
//	banners.json             a body
//	catalogue.artist.2.json  that of a second page of a part
//
// A file has no version, so its ETag is a hash of its bytes, which changes with every edit.
type folder struct {
	files  fs.FS
	prefix string // of a file's name in errors
	most   int64  // a larger file is not read
}

// fileName is the file of a saved response.
func fileName(want Request) string {
	name := want.Resource
	if want.Part != "" {
		name += "." + want.Part
	}
	if want.Page > 1 {
		name += "." + strconv.Itoa(want.Page)
	}
	return name + ".json"
}

func (f *folder) op(u *url.URL) string { return "read " + f.prefix + strings.TrimPrefix(u.Path, "/") }

// RoundTrip reads one saved response.
func (f *folder) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(req.URL.Path, "/")
	info, err := fs.Stat(f.files, name)
	if err != nil {
		return nil, f.fault(err)
	}
	resp := &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		ContentLength: info.Size(), Body: http.NoBody, Header: http.Header{"Content-Type": {"application/json"}},
	}
	if info.Mode().IsRegular() && info.Size() > f.most {
		return resp, nil // it is refused by its length
	}
	body, err := f.read(name, info)
	if err != nil {
		return nil, f.fault(err)
	}
	sum := sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:12]) + `"`
	resp.Header.Set("ETag", etag)
	if req.Header.Get("If-None-Match") == etag {
		resp.StatusCode, resp.ContentLength = http.StatusNotModified, 0
		return resp, nil
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// read reads a file after checking that it is a regular one: opening a pipe would wait for its
// writer.
func (f *folder) read(name string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	file, err := f.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(file, f.most+1))
}

// fault removes the operation and name, which the error has already.
func (f *folder) fault(err error) error {
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		err = wrapped.Err
	}
	if _, gone := fs.Stat(f.files, "."); gone != nil {
		return &FaultError{Kind: FaultFolder, Err: err}
	}
	return &FaultError{Kind: FaultFile, Err: err}
}
