package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

// piped serves one connection without a buffer of the system's, and returns the client's end, and
// what is closed when its serving ends. A write waits until it is read.
func piped(t *testing.T, r *rig) (net.Conn, chan struct{}) {
	t.Helper()
	served, client := net.Pipe()
	ended := make(chan struct{})
	go func() {
		_ = r.connections.http.ServeConn(r.connections.newClient(served)) // the client ends it
		close(ended)
	}()
	t.Cleanup(func() {
		_ = client.Close()
		testkit.Receive(t, ended)
	})
	return client, ended
}

// orderings are different ones of the banners.
func orderings(n int) (all []string) {
	names := shape.BannerFields()
	for i := range n {
		all = append(all, "-"+names[i%len(names)]+",-"+names[i/len(names)%len(names)]+",id")
	}
	return all
}

// There is room for two forms of a document. While both are being written, another one is written
// from the document, without a coding; however their writing ends, it makes room.
func TestAFormIsHeldWhileItIsWrittenAndNoLonger(t *testing.T) {
	r := newRig(t, Options{})
	r.sources[shape.Banners].hold(t, bannersOf(t, 300_000))
	request := func(method, ordering, fields string) string {
		return fmt.Sprintf("%s /gvapp/singlebanner?ordering=%s HTTP/1.1\r\nHost: x\r\n%s\r\n", method, ordering, fields)
	}
	all := orderings(60)
	next := func() (ordering string) {
		ordering, all = all[0], all[1:]
		return ordering
	}
	// get returns when the server has forgotten the answer.
	get := func(ordering, fields string) reply {
		t.Helper()
		c, ended := piped(t, r)
		testkit.Write(t, c, request("GET", ordering, "Connection: close\r\n"+fields))
		got := readReply(t, bufio.NewReader(c), http.MethodGet)
		testkit.Receive(t, ended)
		return got
	}
	// built asks for another ordering, and reports whether there was room for it.
	built := func() bool {
		t.Helper()
		ordering := next()
		got := get(ordering, "Accept-Encoding: gzip\r\n")
		if plain := get(ordering, ""); got.Header.Get("Content-Encoding") == "" && string(plain.body) != string(got.body) {
			t.Errorf("ordered by %s: other items from the document", ordering)
		}
		return got.Header.Get("Content-Encoding") == "gzip"
	}
	for name, end := range map[string]func(net.Conn){
		"it is read": func(c net.Conn) {
			_, err := io.Copy(io.Discard, c)
			testkit.Check(t, err)
		},
		"the client is gone": func(c net.Conn) { testkit.Check(t, c.Close()) },
	} {
		if !built() {
			t.Fatalf("%s: there is no room before", name)
		}
		writing := map[net.Conn]chan struct{}{}
		for range 2 {
			c, ended := piped(t, r)
			testkit.Write(t, c, request("GET", next(), "Connection: close\r\n"))
			_, err := io.ReadFull(c, make([]byte, 10))
			testkit.Must(t, err)
			writing[c] = ended
		}
		if built() {
			t.Errorf("%s: a form is dropped while it is written", name)
		}
		for c, ended := range writing {
			end(c)
			testkit.Receive(t, ended)
		}
		if !built() {
			t.Errorf("%s: there is no room after", name)
		}
	}
	for _, nothing := range []string{"HEAD", "GET"} { // an answer without a body
		fields := map[string]string{"HEAD": "", "GET": "If-None-Match: *\r\n"}[nothing]
		for range 3 {
			c := r.dial(t)
			testkit.Write(t, c, request(nothing, next(), fields))
			readReply(t, bufio.NewReader(c), http.MethodHead)
		}
		if !built() {
			t.Errorf("%s %q keeps a form", nothing, strings.TrimSpace(fields))
		}
	}
}
