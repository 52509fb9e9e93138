package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A contender is a server that is compared.
type contender struct {
	name string
	p    *process
	url  string // without the path
}

// nginxConf is a caching proxy as anybody would write one for speed: it keeps what the origin
// allows, sends files from the system's cache, compresses for whoever asks, and logs nothing.
const nginxConf = `daemon off;
pid DIR/nginx.pid;
error_log stderr warn;
worker_processes 2;
worker_rlimit_nofile 65536;
events { worker_connections 16384; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_requests 1000000000;
    open_file_cache max=1000 inactive=60s;
    gzip on;
    gzip_types application/json;
    gzip_vary on;
    gzip_min_length 1400;
    client_body_temp_path DIR/body;
    proxy_temp_path DIR/proxy;
    fastcgi_temp_path DIR/fastcgi;
    uwsgi_temp_path DIR/uwsgi;
    scgi_temp_path DIR/scgi;
    proxy_cache_path DIR/cache levels=1:2 keys_zone=bench:64m max_size=512m use_temp_path=off;
    upstream origin {
        server ORIGIN max_fails=0;
        keepalive 64;
    }
    server {
        listen LISTEN backlog=16384;
        TLS
        location / {
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_cache bench;
            proxy_cache_lock on;
            proxy_cache_revalidate on;
        }
    }
}
`

// startNginx starts it in front of the origin, with TLS where there is a certificate.
func (l *lab) startNginx(certificate, key string) (*contender, error) {
	program, err := find("nginx", "nginx-light")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "nginx-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	secure, scheme, listen := "", "http://", addr
	if certificate != "" {
		scheme, listen = "https://", addr+" ssl"
		secure = fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s; ssl_protocols TLSv1.2 TLSv1.3;", certificate, key)
	}
	conf := strings.NewReplacer("DIR", dir, "LISTEN", listen, "TLS", secure, "ORIGIN", strings.TrimPrefix(l.origin.url, "http://")).Replace(nginxConf)
	if os.Geteuid() == 0 {
		conf = "user root;\n" + conf
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	p, err := started(start(addr, program, "-c", file, "-e", "stderr", "-p", dir))
	if err != nil {
		return nil, err
	}
	return &contender{"nginx", p, scheme + addr}, nil
}

// varnishVCL keeps what the origin allows: a copy as it is, and one compressed, so that it has to
// do neither for an answer.
const varnishVCL = `vcl 4.1;
backend origin { .host = "HOST"; .port = "PORT"; }
sub vcl_recv {
    unset req.http.Cookie;
    unset req.http.Authorization;
    if (req.http.Accept-Encoding ~ "gzip") { set req.http.Accept-Encoding = "gzip"; } else { unset req.http.Accept-Encoding; }
}
sub vcl_backend_fetch { set bereq.http.X-Compress = "on"; }
`

func (l *lab) startVarnish() (*contender, error) {
	program, err := find("varnishd", "varnish gcc")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "varnish-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(l.origin.url, "http://"))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "bench.vcl")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("HOST", host, "PORT", port).Replace(varnishVCL)), 0o600); err != nil {
		return nil, err
	}
	p, err := started(start(addr, program, "-F", "-j", "none", "-T", "none", "-n", dir, "-a", addr, "-f", file, "-s", "malloc,512m", "-p", "http_gzip_support=off"))
	if err != nil {
		return nil, err
	}
	return &contender{"Varnish", p, "http://" + addr}, nil
}

// startRepeaters starts what repeats an answer of vitrine's: a Fiber application, and the loop.
func (l *lab) startRepeaters(path string, resp *http.Response, body []byte) (bare, loop *contender, err error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "HTTP/1.1 %s\r\n", resp.Status)
	header := resp.Header.Clone()
	header.Del("Connection")
	header.Del("Content-Length") // which is written below
	if err := header.Write(&out); err != nil {
		return nil, nil, err
	}
	if resp.StatusCode == http.StatusOK {
		fmt.Fprintf(&out, "Content-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n")
	out.Write(body)
	file := filepath.Join(l.dir, "answer.http")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		return nil, nil, err
	}
	if bare, err = repeater("bare Fiber", "bare", path, file); err != nil {
		return nil, nil, err
	}
	if loop, err = repeater("loop", "loop", file); err != nil {
		bare.p.stop()
	}
	return bare, loop, err
}

// repeater starts this program as a contender.
func repeater(name, command string, args ...string) (*contender, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := started(start(addr, self, append([]string{command, addr}, args...)...))
	if err != nil {
		return nil, err
	}
	return &contender{name, p, "http://" + addr}, nil
}

// find is where a program is, or how to get it. Debian has servers where only root looks for them.
func find(program, debian string) (string, error) {
	for _, name := range []string{program, filepath.Join("/usr/sbin", program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: apt-get install %s", program, debian)
}

// trusting is for the certificate below, and nothing else is asked over TLS.
var trusting = &tls.Config{InsecureSkipVerify: true}

// writeCertificate makes a certificate for the lab.
func (l *lab) writeCertificate() (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	certificate, key = filepath.Join(l.dir, "cert.pem"), filepath.Join(l.dir, "key.pem")
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			return "", "", err
		}
	}
	return certificate, key, nil
}
