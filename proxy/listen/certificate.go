package listen

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// CertificateOptions name a certificate.
type CertificateOptions struct {
	// CertFile has the certificate and its chain, KeyFile its key, both in PEM. Required.
	CertFile, KeyFile string
	// Interval is how often the files are read. Zero means every second.
	Interval time.Duration
	// Logger receives new certificates and invalid files. Nil means slog.Default().
	Logger *slog.Logger
}

// A Certificate is the current certificate in two files.
//
// The files are polled instead of being watched. Watching does not work everywhere: not over NFS,
// nor for a file that was mounted by itself and then replaced, and Kubernetes replaces the files by
// moving a link two folders above. Reading two small files a second costs nothing measurable.
type Certificate struct {
	options CertificateOptions
	current atomic.Pointer[pair]
}

// A pair is a certificate and the files' content.
type pair struct {
	sums [2][sha256.Size]byte // of the two files
	cert *tls.Certificate
}

// errNoFile is a file that was not named.
var errNoFile = errors.New("both a certificate file and a key file are needed")

// NewCertificate reads the files. It fails if they do not contain a certificate and its key.
func NewCertificate(o CertificateOptions) (*Certificate, error) {
	if o.CertFile == "" || o.KeyFile == "" {
		return nil, errNoFile
	}
	if o.Interval < 0 {
		return nil, fmt.Errorf("the interval is negative: %v", o.Interval)
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	c := &Certificate{options: o}
	p, err := c.read(nil)
	if err != nil {
		return nil, err
	}
	c.current.Store(p)
	return c, nil
}

// Watch replaces the certificate whenever the files contain another one, until ctx ends. Invalid
// files, or a certificate and a key that do not match, leave it as it is. That is logged once, at
// the second read: between the writing of the two files they never match.
func (c *Certificate) Watch(ctx context.Context) {
	tick := time.NewTicker(c.options.Interval)
	defer tick.Stop()
	var last, logged string // the error of the last read, and the one logged
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		held := c.current.Load()
		p, err := c.read(held)
		if err != nil {
			if text := err.Error(); text == last && text != logged {
				logged = text
				c.options.Logger.WarnContext(ctx, "TLS certificate not reloaded: invalid files", "error", err)
			}
			last = err.Error()
			continue
		}
		last, logged = "", ""
		if p == held {
			continue
		}
		c.current.Store(p)
		c.options.Logger.InfoContext(ctx, "new TLS certificate", "file", c.options.CertFile,
			"subject", p.cert.Leaf.Subject.String(), "not_after", p.cert.Leaf.NotAfter)
	}
}

// read reads the files. If they have not changed, it returns held. Its error contains nothing of
// the key.
func (c *Certificate) read(held *pair) (*pair, error) {
	cert, err := os.ReadFile(c.options.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(c.options.KeyFile)
	if err != nil {
		return nil, err
	}
	sums := [2][sha256.Size]byte{sha256.Sum256(cert), sha256.Sum256(key)}
	if held != nil && held.sums == sums {
		return held, nil
	}
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.options.CertFile, c.options.KeyFile, err)
	}
	if parsed.Leaf == nil { // with GODEBUG=x509keypairleaf=0
		if parsed.Leaf, err = x509.ParseCertificate(parsed.Certificate[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", c.options.CertFile, err)
		}
	}
	return &pair{sums: sums, cert: &parsed}, nil
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
			return c.current.Load().cert, nil
		},
	}
}
