package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A contender is a server that is compared.
type contender struct {
	name string
	p    *process
	url  string // without the path
}

// nginxConf is a caching proxy configured for speed: it keeps what the origin allows, sends files from
// the system's cache, compresses on request, and logs nothing.
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

// startNginx starts it in front of the origin.
func (l *lab) startNginx() *contender {
	program := find("nginx", "nginx-light")
	dir := try(os.MkdirTemp(l.dir, "nginx-"))
	addr := freeAddress()
	conf := strings.NewReplacer("DIR", dir, "LISTEN", addr, "ORIGIN", strings.TrimPrefix(l.origin.url, "http://")).Replace(nginxConf)
	if os.Geteuid() == 0 {
		conf = "user root;\n" + conf
	}
	file := filepath.Join(dir, "nginx.conf")
	check(os.WriteFile(file, []byte(conf), 0o600))
	p := started(start(addr, program, nil, "-c", file, "-e", "stderr", "-p", dir))
	return &contender{"nginx", p, "http://" + addr}
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

func (l *lab) startVarnish() *contender {
	program := find("varnishd", "varnish gcc")
	dir := try(os.MkdirTemp(l.dir, "varnish-"))
	addr := freeAddress()
	host, port, _ := strings.Cut(strings.TrimPrefix(l.origin.url, "http://"), ":")
	file := filepath.Join(dir, "bench.vcl")
	check(os.WriteFile(file, []byte(strings.NewReplacer("HOST", host, "PORT", port).Replace(varnishVCL)), 0o600))
	p := started(start(addr, program, nil, "-F", "-j", "none", "-T", "none", "-n", dir, "-a", addr, "-f", file, "-s", "malloc,512m", "-p", "http_gzip_support=off"))
	return &contender{"Varnish", p, "http://" + addr}
}

// startBare starts a Fiber application that repeats an answer of vitrine's.
func (l *lab) startBare(path string, resp *http.Response, body []byte) *contender {
	var out bytes.Buffer
	fmt.Fprintf(&out, "HTTP/1.1 %s\r\n", resp.Status)
	header := resp.Header.Clone()
	header.Del("Connection")
	header.Del("Content-Length") // which is written below
	check(header.Write(&out))
	if resp.StatusCode == http.StatusOK {
		fmt.Fprintf(&out, "Content-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n")
	out.Write(body)
	file := filepath.Join(l.dir, "answer.http")
	check(os.WriteFile(file, out.Bytes(), 0o600))
	self := try(os.Executable())
	addr := freeAddress()
	p := started(start(addr, self, nil, "bare", addr, path, file))
	return &contender{"bare Fiber", p, "http://" + addr}
}

// find is where a program is, or how to get it. Debian has servers where only root looks for them.
func find(program, debian string) string {
	for _, name := range []string{program, filepath.Join("/usr/sbin", program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	panic(fmt.Errorf("%s is not installed: apt-get install %s", program, debian))
}
