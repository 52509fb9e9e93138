// Package listentest makes self-signed certificates for tests, and TLS with them.
package listentest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Certificate is CertificateUntil in an hour.
func Certificate(name string) (cert, key []byte, err error) {
	return CertificateUntil(name, time.Now().Add(time.Hour))
}

// CertificateUntil makes a certificate for 127.0.0.1 that is its own authority and good for the two
// hours before its end, and its key, in PEM. The name is its subject's.
func CertificateUntil(name string, ends time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), // clients refuse two of one name and number
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    ends.Add(-2 * time.Hour),
		NotAfter:     ends,
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

// TLS is TLS for a server on 127.0.0.1, and for its clients.
func TLS(t testing.TB) (server, clients *tls.Config) {
	t.Helper()
	cert, key, err := Certificate("vitrine")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	server = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return server, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}
