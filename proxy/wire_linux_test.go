package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/proxy/listen/listentest"
	"vitrine/upstream/shape"
)

// The race detector has the portable reads, which may find nothing first, and writes: two above 16 KB.
func TestOneSystemCallReadsARequestAndOneWritesAnAnswer(t *testing.T) {
	r := newRig(t, Options{})
	serveOnSocket(t, r, nil)
	largeWrites := 1
	if testkit.Race {
		largeWrites = 2
	}
	testSystemCalls(t, r, r.dial(t), []int{3_000, 12_000, 55_000}, largeWrites, !testkit.Race)
}

func TestOneSystemCallWritesAnAnswerOfUpTo16KBOverTLS(t *testing.T) {
	r := newRig(t, Options{})
	server, clients := listentest.TLS(t)
	serveOnSocket(t, r, server)
	testSystemCalls(t, r, tls.Client(r.dial(t), clients), []int{3_000, 12_000, 40_000}, 4, false)
}

func testSystemCalls(t *testing.T, r *rig, conn net.Conn, sizes []int, largeWrites int, countReads bool) {
	defer conn.Close()
	from := bufio.NewReaderSize(conn, 1<<20)
	for _, size := range sizes {
		r.sources[shape.Banners].hold(t, bannersOf(t, size))
		tag := ""
		for _, fields := range []string{"", "Accept-Encoding: br\r\n", "Accept: application/json; indent=2\r\n", "condition"} {
			const times = 50
			ask := func() {
				sent := fields
				if fields == "condition" {
					sent = "If-None-Match: " + tag + "\r\n"
				}
				testkit.Write(t, conn, "GET /gvapp/singlebanner HTTP/1.1\r\nHost: x\r\n"+sent+"\r\n")
				got := readReply(t, from, http.MethodGet)
				if fields == "" {
					tag = got.Header.Get("ETag")
				}
				if want := fields == "condition"; (got.StatusCode == http.StatusNotModified) != want {
					t.Fatalf("%d %v", got.StatusCode, got.Header)
				}
			}
			ask() // what is prepared is prepared
			reads, writes := math.MaxInt, math.MaxInt
			for range 5 { // at a quiet moment: the runtime has calls of its own, to wake its poller
				readsBefore, writesBefore := systemCalls(t)
				for range times {
					ask()
				}
				readsAfter, writesAfter := systemCalls(t)
				reads, writes = min(reads, readsAfter-readsBefore), min(writes, writesAfter-writesBefore)
			}
			want := times // and one of the client's for each
			if size > 16<<10 && fields != "Accept-Encoding: br\r\n" && fields != "condition" {
				want = largeWrites * times
			}
			if writes > want+times+times/10 {
				t.Errorf("%d bytes, %q: %d answers took %d writes, want %d", size, fields, times, writes-times, want)
			}
			// Each side may find nothing, wait, and then read. The client reads a large answer in
			// pieces as they come.
			if countReads && size < 10_000 && reads > 4*times+times/10 {
				t.Errorf("%d bytes, %q: both sides took %d reads for %d requests", size, fields, reads, times)
			}
		}
	}
}

// systemCalls is how often this process has called read and write, and their kin, so far.
func systemCalls(t *testing.T) (reads, writes int) {
	t.Helper()
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("system calls are counted in /proc/self/io: run it on Linux: %v", err)
	}
	for name, n := range map[string]*int{"syscr: ": &reads, "syscw: ": &writes} {
		_, after, _ := strings.Cut(string(io), name)
		_, err := fmt.Sscan(after, n)
		testkit.Must(t, err)
	}
	return reads, writes
}
