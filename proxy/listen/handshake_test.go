package listen

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// TestHandshakesWaitForAPlaceAndUnfinishedOnesHoldNone has twenty clients stop in the middle of
// their handshake, and one go on to the end while nobody has a place and then while all are taken.
func TestHandshakesWaitForAPlaceAndUnfinishedOnesHoldNone(t *testing.T) {
	f := folder(t.TempDir())
	f.put(t, makeCertificate(t, "first"))
	c, err := NewCertificate(f.cert(), f.key(), quiet)
	testkit.Must(t, err)
	l, err := Open(t.Context(), "127.0.0.1:0", quiet)
	testkit.Must(t, err)
	defer l.Close()
	var running sync.WaitGroup
	defer running.Wait()
	secure := l.Listen(c.Config())
	defer secure.Close()
	running.Go(func() {
		for {
			conn, err := secure.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				_ = conn.(*secureConn).Handshake() // most clients never finish it
				_, _ = conn.Read(make([]byte, 1))
			})
		}
	})
	var halves []net.Conn
	defer func() {
		for _, half := range halves {
			half.Close()
		}
	}()
	for range 20 {
		half := testkit.Dial(t, "tcp", l.Addr().String())
		halves = append(halves, half)
		if _, err := half.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")); err != nil {
			t.Fatal(err)
		}
	}
	shake := func() error {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	if err := shake(); err != nil {
		t.Fatalf("beside unfinished handshakes: %v", err)
	}
	n := 1
	for l.handshakes.Take(); l.handshakes.TryTake(); {
		n++
	}
	shaken := make(chan error, 1)
	go func() { shaken <- shake(); close(shaken) }()
	select {
	case err := <-shaken:
		t.Errorf("a handshake without a place: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	for range n {
		l.handshakes.Give()
	}
	if err := testkit.Receive(t, shaken); err != nil {
		t.Error(err)
	}
}
