package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/proxy/listen/listentest"
)

// made is a certificate for 127.0.0.1 that signs itself, in PEM.
type made struct {
	cert, key []byte
	name      string
}

func makeCertificate(t testing.TB, name string) made {
	t.Helper()
	cert, key, err := listentest.Certificate(name)
	testkit.Must(t, err)
	return made{name: name, cert: cert, key: key}
}

// folder is where the two files are.
type folder string

func (f folder) cert() string { return filepath.Join(string(f), "tls.crt") }
func (f folder) key() string  { return filepath.Join(string(f), "tls.key") }

// put replaces both files, as tools for certificates do: beside, then renamed.
func (f folder) put(t testing.TB, m made) {
	t.Helper()
	replace(t, f.cert(), m.cert)
	replace(t, f.key(), m.key)
}

func replace(t testing.TB, path string, content []byte) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path+".new", content, 0o600))
	testkit.Must(t, os.Rename(path+".new", path))
}

// watched starts an echo of one byte behind a watched certificate, and returns its address and its
// log.
func watched(t testing.TB, f folder) (addr string, log *testkit.Buffer) {
	t.Helper()
	log = new(testkit.Buffer)
	c, err := NewCertificate(f.cert(), f.key(), slog.New(slog.NewTextHandler(log, nil)))
	testkit.Must(t, err)
	c.interval = 2 * time.Millisecond
	l := opened(t, c.Config())
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { c.Watch(ctx) })
	t.Cleanup(func() {
		stop()
		watching.Wait()
	})
	testkit.AcceptFrom(t, l, func(conn net.Conn) {
		var b [1]byte
		for {
			if _, err := conn.Read(b[:]); err != nil {
				return
			}
			if _, err := conn.Write(b[:]); err != nil {
				return
			}
		}
	})
	return l.Addr().String(), log
}

// dial connects, trusting exactly the given certificates, and returns which one it got.
func dial(addr string, trusted ...made) (conn *tls.Conn, name string, err error) {
	pool := x509.NewCertPool()
	for _, m := range trusted {
		pool.AppendCertsFromPEM(m.cert)
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	conn, err = tls.DialWithDialer(&d, "tcp", addr, &tls.Config{RootCAs: pool})
	if err != nil {
		return nil, "", err
	}
	return conn, conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func echo(conn net.Conn) error {
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

// Tools replace the files; Kubernetes, a link to their folder.
func TestACertificateIsReplacedAndNoHandshakeFails(t *testing.T) {
	first, second := makeCertificate(t, "first"), makeCertificate(t, "second")
	files, root := folder(t.TempDir()), t.TempDir()
	for _, m := range []made{first, second} {
		testkit.Must(t, os.Mkdir(filepath.Join(root, m.name), 0o700))
		folder(filepath.Join(root, m.name)).put(t, m)
	}
	link := func(m made) {
		testkit.Must(t, os.Symlink(m.name, filepath.Join(root, "new")))
		testkit.Must(t, os.Rename(filepath.Join(root, "new"), filepath.Join(root, "data")))
	}
	for how, c := range map[string]struct {
		folder
		put func(made)
	}{"files": {files, func(m made) { files.put(t, m) }}, "a link": {folder(filepath.Join(root, "data")), link}} {
		c.put(first)
		addr, _ := watched(t, c.folder)
		long, name, err := dial(addr, first)
		if err != nil || name != "first" {
			t.Fatalf("%s: got %q, %v", how, name, err)
		}
		t.Cleanup(func() { _ = long.Close() })
		for _, m := range []made{second, first, second} {
			c.put(m)
			testkit.Eventually(t, how+": a new connection gets the "+m.name+" certificate", func() bool {
				conn, name, err := dial(addr, first, second)
				testkit.Must(t, err)
				testkit.Must(t, echo(conn))
				conn.Close()
				return name == m.name
			})
		}
		if err := echo(long); err != nil {
			t.Errorf("%s: the connection from before is gone: %v", how, err)
		}
	}
}

func TestFilesThatAreNoGoodLeaveTheCertificateAndAreToldOnce(t *testing.T) {
	f := folder(t.TempDir())
	first, second := makeCertificate(t, "first"), makeCertificate(t, "second")
	f.put(t, first)
	addr, log := watched(t, f)
	stays := func(what string, change func()) {
		t.Helper()
		before := strings.Count(log.String(), "not reloaded")
		change()
		testkit.Eventually(t, what+" is logged", func() bool { return strings.Count(log.String(), "not reloaded") > before })
		conn, name, err := dial(addr, first)
		if err != nil || name != "first" {
			t.Fatalf("%s: got %q, %v", what, name, err)
		}
		conn.Close()
	}
	stays("a certificate without its key", func() { replace(t, f.cert(), second.cert) })
	stays("a file that is no certificate", func() { replace(t, f.cert(), []byte("no PEM")) })
	stays("a file that is gone", func() { testkit.Must(t, os.Remove(f.cert())) })
	stays("a pipe that nobody writes to", func() { testkit.Must(t, syscall.Mkfifo(f.cert(), 0o600)) })
	if n := strings.Count(log.String(), "not reloaded"); n != 4 {
		t.Errorf("four faults are logged %d times:\n%s", n, log)
	}
	if strings.Contains(log.String(), "PRIVATE") {
		t.Errorf("the log shows the key:\n%s", log)
	}
	f.put(t, second)
	testkit.Eventually(t, "the new certificate is logged", func() bool {
		return strings.Contains(log.String(), "new TLS certificate") && strings.Contains(log.String(), "CN=second")
	})
}

func TestOldTLSIsRefused(t *testing.T) {
	f := folder(t.TempDir())
	f.put(t, makeCertificate(t, "first"))
	addr, _ := watched(t, f)
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			conn.Close()
		}
	}
	conn, err := tls.Dial("tcp", addr, &tls.Config{
		InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA},
	})
	if err == nil {
		t.Errorf("suites in CBC mode are accepted: %s", tls.CipherSuiteName(conn.ConnectionState().CipherSuite))
		conn.Close()
	}
}

func TestCertificatesThatCannotBeServedAreRefusedAtOnce(t *testing.T) {
	f := folder(t.TempDir())
	first := makeCertificate(t, "first")
	f.put(t, first)
	other := folder(t.TempDir())
	other.put(t, makeCertificate(t, "other"))
	for name, o := range map[string]struct{ cert, key string }{
		"no key file":         {f.cert(), ""},
		"no certificate file": {"", f.key()},
		"missing file":        {f.cert() + "x", f.key()},
		"missing key":         {f.cert(), f.key() + "x"},
		"key of another":      {f.cert(), other.key()},
		"swapped":             {f.key(), f.cert()},
	} {
		if _, err := NewCertificate(o.cert, o.key, quiet); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestHandshakesWaitForAPlaceAndUnfinishedOnesHoldNone has twenty clients stop in the middle of
// their handshake, and one go on to the end while nobody has a place and then while all are taken.
func TestHandshakesWaitForAPlaceAndUnfinishedOnesHoldNone(t *testing.T) {
	f := folder(t.TempDir())
	f.put(t, makeCertificate(t, "first"))
	c, err := NewCertificate(f.cert(), f.key(), quiet)
	testkit.Must(t, err)
	l := opened(t, c.Config())
	testkit.AcceptFrom(t, l, func(conn net.Conn) {
		_ = conn.(*secureConn).Handshake() // most clients never finish it
		_, _ = conn.Read(make([]byte, 1))
	})
	for range 20 {
		testkit.Write(t, testkit.Dial(t, "tcp", l.Addr().String()), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
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
	testkit.Check(t, testkit.Receive(t, shaken))
}
