package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// An origin is a CMS of the kind that documents come from: it answers in the shape of the sample,
// uncompressed.
type origin struct {
	server  *http.Server
	url     string
	fetches atomic.Int64

	mu        sync.Mutex
	documents map[string][]byte // by path
}

// The public paths.
const (
	catalogue = "/gvapp/"
	rules     = "/cms/rules/"
	banners   = "/gvapp/singlebanner"
)

func newOrigin() (*origin, error) {
	o := &origin{documents: map[string][]byte{}}
	for path, name := range map[string]string{catalogue: "catalogue", rules: "rules", banners: "banners"} {
		raw, err := os.ReadFile(filepath.Join("..", "upstream", "sample", name+".json"))
		if err != nil {
			return nil, err
		}
		o.documents[path] = raw
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o.url = "http://" + ln.Addr().String()
	o.server = &http.Server{Handler: o}
	go o.server.Serve(ln) //nolint:errcheck // until it is closed
	return o, nil
}

// ServeHTTP answers with what caches in front may keep for longer than a measurement takes;
// compressed if they ask for it in so many words, which nginx, which compresses itself, does not.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.fetches.Add(1)
	o.mu.Lock()
	body, ok := o.documents[r.URL.Path]
	o.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Header.Get("X-Compress") == "on" {
		w.Header().Set("Vary", "Accept-Encoding")
		if r.Header.Get("Accept-Encoding") == "gzip" {
			var small bytes.Buffer
			z := gzip.NewWriter(&small)
			_, _ = z.Write(body) // to memory
			_ = z.Close()
			body = small.Bytes()
			w.Header().Set("Content-Encoding", "gzip")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(body)))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// set gives out a document of about size bytes from now on.
func (o *origin) set(path string, size int) error {
	raw, err := grown(path, size)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.documents[path] = raw
	return nil
}

// grown is a document of the sample with as many items as make about size bytes.
func grown(path string, size int) ([]byte, error) {
	name := map[string]string{catalogue: "catalogue", rules: "rules", banners: "banners"}[path]
	raw, err := os.ReadFile(filepath.Join("..", "upstream", "sample", name+".json"))
	if err != nil {
		return nil, err
	}
	if path == catalogue {
		var lists map[string][]map[string]any
		if err := json.Unmarshal(raw, &lists); err != nil {
			return nil, err
		}
		rest, err := json.Marshal(map[string]any{"artist": lists["artist"], "gallery": lists["gallery"]})
		if err != nil {
			return nil, err
		}
		if lists["artwork"], err = repeated(lists["artwork"], size-len(rest)); err != nil {
			return nil, err
		}
		return json.Marshal(lists)
	}
	var list []map[string]any
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	if list, err = repeated(list, size); err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// repeated are as many of the items as make about size bytes, each with an id, and texts, of its
// own.
func repeated(items []map[string]any, size int) ([]map[string]any, error) {
	var all []map[string]any
	for i := 0; size > 0; i++ {
		next := map[string]any{}
		for name, value := range items[i%len(items)] {
			if text, ok := value.(string); ok && i >= len(items) && strings.HasPrefix(name, "title") {
				value = fmt.Sprintf("%s %x", text, i*2654435761)
			}
			next[name] = value
		}
		next["id"] = 1000 + i
		raw, err := json.Marshal(next)
		if err != nil {
			return nil, err
		}
		size -= len(raw) + 1
		all = append(all, next)
	}
	return all, nil
}
