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
	"time"
)

// An origin is a CMS of the kind that documents come from: it answers in the shape of the sample,
// uncompressed.
type origin struct {
	server  *http.Server
	url     string
	fetches atomic.Int64
	delay   atomic.Int64 // of each answer, in nanoseconds

	mu        sync.Mutex
	documents map[string][]byte // by path
}

// The public paths.
const (
	catalogue = "/gvapp/"
	rules     = "/cms/rules/"
	banners   = "/gvapp/singlebanner"
)

func newOrigin() *origin {
	o := &origin{documents: map[string][]byte{}}
	for path, name := range map[string]string{catalogue: "catalogue", rules: "rules", banners: "banners"} {
		raw := try(os.ReadFile(filepath.Join("..", "upstream", "sample", name+".json")))
		o.documents[path] = raw
	}
	ln := try(net.Listen("tcp", "127.0.0.1:0"))
	o.url = "http://" + ln.Addr().String()
	o.server = &http.Server{Handler: o}
	go o.server.Serve(ln) //nolint:errcheck // until it is closed
	return o
}

// ServeHTTP answers with what caches in front may keep for longer than a measurement takes;
// compressed if they ask for it in so many words, which nginx, which compresses itself, does not.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.fetches.Add(1)
	time.Sleep(time.Duration(o.delay.Load()))
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
func (o *origin) set(path string, size int) {
	raw := grown(path, size)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.documents[path] = raw
}

// grown is a document of the sample with as many items as make about size bytes.
func grown(path string, size int) []byte {
	name := map[string]string{catalogue: "catalogue", rules: "rules", banners: "banners"}[path]
	raw := try(os.ReadFile(filepath.Join("..", "upstream", "sample", name+".json")))
	if path == catalogue {
		var lists map[string][]map[string]any
		check(json.Unmarshal(raw, &lists))
		rest := try(json.Marshal(map[string]any{"artist": lists["artist"], "gallery": lists["gallery"]}))
		lists["artwork"] = repeated(lists["artwork"], size-len(rest))
		return try(json.Marshal(lists))
	}
	var list []map[string]any
	check(json.Unmarshal(raw, &list))
	return try(json.Marshal(repeated(list, size)))
}

// repeated are as many of the items as make about size bytes, each with an id, and texts, of its
// own.
func repeated(items []map[string]any, size int) []map[string]any {
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
		raw := try(json.Marshal(next))
		size -= len(raw) + 1
		all = append(all, next)
	}
	return all
}
