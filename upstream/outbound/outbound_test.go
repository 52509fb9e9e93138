package outbound

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// TestWhateverIsReadEndsWithTheContext: a peer answers, and is silent from then on.
func TestWhateverIsReadEndsWithTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status int // 0: an error
	}{
		"nothing":            {"", 0},
		"half a header":      {"HTTP/1.1 200 OK\r\nX: ", 0},
		"hints":              {"HTTP/1.1 103 Early Hints\r\n\r\n", 0},
		"half a body":        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", 0},
		"a chunk":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 0},
		"a body to the end":  {"HTTP/1.1 200 OK\r\n\r\nx", 0},
		"an upgrade":         {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 101},
		"an upgrade, a body": {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nx", 101},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			testkit.Must(t, err)
			defer ln.Close()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4<<10)) // an answer before its request is another error
				_, _ = io.WriteString(conn, c.answer)
				_, _ = io.Copy(io.Discard, conn)
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ln.Addr().String(), http.NoBody)
			testkit.Must(t, err)
			inner := New(0)
			defer inner.CloseIdleConnections()
			resp, err := (&http.Client{Transport: Wrap(inner)}).Do(request)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if c.status != 0 && (err != nil || resp.StatusCode != c.status) || c.status == 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v, %v", resp, err)
			}
			select {
			case <-closed:
			case <-time.After(testkit.Patience):
				t.Error("the connection stays open")
			}
		})
	}
}
