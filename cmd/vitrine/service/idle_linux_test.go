//go:build !race

package service

import (
	"net/http"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// TestAnIdleConnectionKeepsASmallStack: a stack shrinks no further than to four times of what
// waiting takes, so one that an answer has made larger than 4 KB stays so. The race detector has
// larger frames.
func TestAnIdleConnectionKeepsASmallStack(t *testing.T) {
	const connections, most = 32, 6 << 10
	r := start(t, "VITRINE_UPSTREAM_URL=sample:")
	r.allAnswer(t, "hit")
	http.DefaultClient.CloseIdleConnections()
	stacks := func() int64 {
		for range 3 { // stacks of what has ended are given back later
			runtime.GC()
			<-time.After(20 * time.Millisecond)
		}
		sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	before := stacks()
	answer := make([]byte, 64<<10)
	for range connections {
		conn := testkit.Dial(t, "tcp", r.public.Addr().String())
		const hit = "HEAD /gvapp/singlebanner?ordering=-id,title_en HTTP/1.1\r\nHost: x\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\n" +
			"Accept-Encoding: gzip, deflate, br, zstd\r\nIf-None-Match: \"x\", W/\"y\"\r\nOrigin: https://x.example\r\n\r\n"
		for _, request := range []string{
			hit, hit, // the first of a second, which renders lines, takes more
			"GET /gvapp?x=y HTTP/1.1\r\nHost: x\r\n\r\n",
			"GET /favicon.ico HTTP/1.1\r\nHost: x\r\n\r\n",
			"POST /gvapp/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
			"GET /gvapp/ HTTP/1.1\r\nHost: x\r\nAccept: image/avif\r\n\r\n",
		} {
			testkit.Write(t, conn, request)
			_, err := conn.Read(answer)
			testkit.Must(t, err)
		}
	}
	if each := (stacks() - before) / connections; each > most {
		t.Errorf("an idle connection has %d bytes of stack, want %d at most", each, most)
	}
}
