package outbound

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

func TestAConnectionIsUsedForALimitedTime(t *testing.T) {
	var opened, closed atomic.Int32
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	ageing := Ageing(New(2), time.Hour)
	defer ageing.CloseIdleConnections()
	get := func() {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		testkit.Must(t, err)
		resp, err := (&http.Client{Transport: Wrap(ageing)}).Do(req)
		testkit.Must(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		testkit.Must(t, errors.Join(err, resp.Body.Close()))
	}
	for range 3 {
		get()
	}
	if opened.Load() != 1 {
		t.Fatalf("%d connections while they are young", opened.Load())
	}
	ageing.most = 0
	for i := range int32(3) {
		get()
		testkit.Eventually(t, "the connection before is closed", func() bool { return opened.Load() == i+2 && closed.Load() == i+1 })
	}
}
