package peers

import (
	"net"
	"strings"
	"testing"

	"vitrine/ci/long/harness"
)

func startVarnish(t *testing.T, v *vitrine) string {
	t.Helper()
	return startVarnishAt(t, v, harness.FreeAddress(t))
}

func startVarnishAt(t *testing.T, v *vitrine, addr string) string {
	t.Helper()
	program := varnishTool.path(t)
	dir := t.TempDir()
	host, port, err := net.SplitHostPort(v.Addr)
	if err != nil {
		t.Fatal(err)
	}
	vcl := write(t, dir, "vitrine.vcl", configuration(t, "/etc/varnish/vitrine.vcl",
		`.host = "127.0.0.1"`, `.host = "`+host+`"`, `.port = "8080"`, `.port = "`+port+`"`))
	options := strings.Fields(configuration(t, "varnishd's options",
		"-a :80", "-a "+addr, "/etc/varnish/vitrine.vcl", vcl))
	run(t, addr, program, append([]string{"-F", "-j", "none", "-T", "none", "-n", dir}, options...)...)
	return "http://" + addr
}
