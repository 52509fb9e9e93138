package listen

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// A Certificate is the current certificate in two files.
//
// The files are polled: watching misses changes over NFS, and of files that are mounted or reached
// through a link that is moved, as Kubernetes does it.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	interval          time.Duration // between two reads
	current           atomic.Pointer[tls.Certificate]
}

// NewCertificate reads the files, which have a certificate with its chain, and its key, both in
// PEM, and fails if they do not. New certificates and invalid files are logged.
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
		now := ""
		if err := c.Read(ctx); err != nil {
			now = err.Error()
		}
		if now == last && now != logged {
			if logged = now; now != "" {
				c.log.WarnContext(ctx, "TLS certificate not reloaded: invalid files", "file", c.certFile, "key", c.keyFile, "error", now)
			}
		}
		last = now
	}
}

// Read replaces the certificate if the files contain another one. An error leaves it as it is.
func (c *Certificate) Read(ctx context.Context) error {
	current, err := c.read()
	if err != nil {
		return err
	}
	if held := c.current.Swap(current); !slices.EqualFunc(held.Certificate, current.Certificate, bytes.Equal) {
		c.log.InfoContext(ctx, "new TLS certificate", "file", c.certFile,
			"subject", current.Leaf.Subject.String(), "not_after", current.Leaf.NotAfter)
	}
	return nil
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
		NextProtos:                  []string{"http/1.1"},
		DynamicRecordSizingDisabled: true, // a record of 16 KB, and so a write, for most answers
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}
