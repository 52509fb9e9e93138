package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"vitrine/cmd/testkit"
	"vitrine/proxy/listen/listentest"
)

// mkcert CERT KEY writes a new certificate for 127.0.0.1 and its key.
func scriptMakeCertificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mkcert CERT KEY")
	}
	cert, key, err := listentest.Certificate("vitrine")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), cert, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), key, 0o600))
}

// waittls HOST:PORT CERT connects until it gets exactly that certificate.
func scriptWaitForTLS(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waittls HOST:PORT CERT")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ts.ReadFile(args[1])))
	ts.Check(testkit.Retry(func() error {
		conn, err := tls.Dial("tcp", args[0], &tls.Config{RootCAs: pool})
		if err != nil {
			return err
		}
		return conn.Close()
	}))
}

// waitsocket PATH connects until somebody listens there.
func scriptWaitForSocket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitsocket PATH")
	}
	ts.Check(testkit.Retry(func() error {
		conn, err := net.Dial("unix", ts.MkAbs(args[0]))
		if err != nil {
			return err
		}
		return conn.Close()
	}))
}
