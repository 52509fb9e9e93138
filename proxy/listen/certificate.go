package listen

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// A Certificate is the current certificate in two files.
//
// The files are polled instead of being watched. Watching does not work everywhere: not over NFS,
// nor for a file that was mounted by itself and then replaced, and Kubernetes replaces the files by
// moving a link two folders above. Once a second, two small files cost next to nothing.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	interval          time.Duration // between two reads
	current           atomic.Pointer[tls.Certificate]
}

// NewCertificate reads the files, which have a certificate with its chain, and its key, both in
// PEM, and fails if they do not. New certificates and invalid files are told to log.
func NewCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, interval: time.Second}
	current, err := c.read()
	c.current.Store(current)
	return c, err
}

// Watch replaces the certificate whenever the files contain another one, until ctx ends. Invalid
// files, or a certificate and a key that do not match, leave it as it is. That is logged once, at
// the second read: between the writing of the two files they never match.
func (c *Certificate) Watch(ctx context.Context) {
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	var last, logged string // the error of the last read, and the one logged
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		current, err := c.read()
		if err != nil {
			if text := err.Error(); text == last && text != logged {
				logged = text
				c.log.WarnContext(ctx, "TLS certificate not reloaded: invalid files",
					"file", c.certFile, "key", c.keyFile, "error", err)
			}
			last = err.Error()
			continue
		}
		last, logged = "", ""
		if held := c.current.Swap(current); !slices.EqualFunc(held.Certificate, current.Certificate, bytes.Equal) {
			c.log.InfoContext(ctx, "new TLS certificate", "file", c.certFile,
				"subject", current.Leaf.Subject.String(), "not_after", current.Leaf.NotAfter)
		}
	}
}

// Valid is from when until when the current certificate is.
func (c *Certificate) Valid() (from, until time.Time) {
	leaf := c.current.Load().Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// read reads the files. Its error contains nothing of the key. A pipe would be waited for without
// end, at the latest when it is read again.
func (c *Certificate) read() (*tls.Certificate, error) {
	for _, path := range []string{c.certFile, c.keyFile} {
		switch info, err := os.Stat(path); {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is not an ordinary file", path)
		}
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err == nil && pair.Leaf == nil { // with GODEBUG=x509keypairleaf=0
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	return &pair, err
}

// Config returns a server configuration that always uses the current certificate. It is for
// HTTP/1.1, over TLS 1.2 (RFC 9325, section 3.1.1) or later.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// For TLS 1.2, without the suites in CBC mode that Go still offers; those of 1.3 are fixed.
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}
