package peers

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// nginxMain is a distribution's nginx.conf around conf.d, confined to a folder of the test.
const nginxMain = `daemon off;
pid DIR/nginx.pid;
error_log stderr warn;
worker_processes 1;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path DIR/body;
    proxy_temp_path DIR/proxy;
    fastcgi_temp_path DIR/fastcgi;
    uwsgi_temp_path DIR/uwsgi;
    scgi_temp_path DIR/scgi;
    include DIR/vitrine.conf;
}
`

func startNginx(t *testing.T, v *vitrine) string {
	t.Helper()
	program := nginxTool.path(t)
	dir, addr := t.TempDir(), harness.FreeAddress(t)
	_, port, err := net.SplitHostPort(addr)
	testkit.Must(t, err)
	write(t, dir, "vitrine.conf", configuration(t, "nginx-cache.conf",
		"/var/cache/nginx/vitrine", filepath.Join(dir, "cache"),
		"127.0.0.1:8080", v.Addr,
		"listen 80;", "listen 127.0.0.1:"+port+";"))
	conf := strings.ReplaceAll(nginxMain, "DIR", dir)
	if os.Geteuid() == 0 { // otherwise the workers switch to a user who cannot read the test's folder
		conf = "user root;\n" + conf
	}
	run(t, addr, program, "-c", write(t, dir, "nginx.conf", conf), "-e", "stderr", "-p", dir)
	return "http://" + addr
}

// TestNginxNamesTheClientItself: what a client writes into X-Forwarded-For does not reach vitrine.
func TestNginxNamesTheClientItself(t *testing.T) {
	v := startVitrine(t, nil, nginxTool)
	url := startNginx(t, v)
	get(t, url+"/gvapp/", "X-Forwarded-For", "198.51.100.1, 203.0.113.9")
	asked := v.log.take()
	if len(asked) != 1 || asked[0].Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("vitrine was sent %v", asked)
	}
}
