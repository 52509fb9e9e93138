package siege

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// Whoever keeps connections to the operator's address, silent or in the middle of a request, keeps
// nobody from checking its health.
func TestHealthChecksAreAnsweredBesideConnectionsThatNobodyUses(t *testing.T) {
	vitrine := harness.Serve(t)
	for _, sent := range []string{
		"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", // and silent from then on
		"GET /livez HTTP/1.1\r\nHost: local",
		"POST /hooks/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
	} {
		var opened []net.Conn
		for range 300 {
			c, err := net.Dial("tcp", vitrine.Operator)
			testkit.Must(t, err)
			opened = append(opened, c)
			_, _ = io.WriteString(c, sent) // it may be closed already, for one that came later
		}
		client := &http.Client{Timeout: time.Second}
		if status, _, _, err := harness.Get(client, "http://"+vitrine.Operator+"/livez"); err != nil || status != http.StatusOK {
			t.Errorf("beside 300 that sent %q: status %d, %v", sent, status, err)
		}
		check := exec.CommandContext(t.Context(), "vitrine", "healthcheck", "--url", fmt.Sprintf("http://%s/readyz", vitrine.Operator))
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("beside 300 that sent %q: vitrine healthcheck: %v\n%s", sent, err, out)
		}
		for _, c := range opened {
			_ = c.Close()
		}
	}
}
