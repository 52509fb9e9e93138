package peers

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
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
	testkit.Must(t, err)
	text := configuration(t, "varnish.vcl",
		`.host = "127.0.0.1"`, `.host = "`+host+`"`, `.port = "8080"`, `.port = "`+port+`"`,
		"-a :80", "-a "+addr, "/etc/varnish/varnish.vcl", filepath.Join(dir, "varnish.vcl"))
	write(t, dir, "varnish.vcl", text)
	_, shown, _ := strings.Cut(text, "\n# varnishd ")
	shown, _, _ = strings.Cut(shown, "\n")
	options := strings.Fields(shown)
	run(t, addr, program, append([]string{"-F", "-j", "none", "-T", "none", "-n", dir}, options...)...)
	return "http://" + addr
}
