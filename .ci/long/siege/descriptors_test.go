package siege

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
)

// Whoever opens all the connections that there are descriptors for costs others an answer, not
// more.
func TestRunningOutOfDescriptorsEndsNothing(t *testing.T) {
	public, operator := harness.FreeAddress(t), harness.FreeAddress(t)
	vitrine := harness.Child{Files: 120, Log: t.Output(), Environ: []string{"VITRINE_LISTEN=" + public, "VITRINE_ADMIN_LISTEN=" + operator}}
	vitrine.Start(t)
	defer vitrine.Stop()
	well := func() error {
		return errors.Join(harness.IsWellAt("http://"+public+"/gvapp/"), harness.IsWellAt("http://"+operator+"/livez"))
	}
	testkit.Must(t, testkit.Retry(well))
	http.DefaultClient.CloseIdleConnections()

	var opened []net.Conn
	defer func() {
		for _, c := range opened {
			_ = c.Close()
		}
	}()
	open := func(address string, n int) {
		for range n {
			c, err := net.Dial("tcp", address)
			testkit.Must(t, err)
			opened = append(opened, c)
		}
	}
	open(public, 300)
	refused := 0
	for _, c := range opened {
		_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // the test's own connection
		if _, err := fmt.Fprintf(c, "GET /gvapp/ HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			refused++ // closed before
			continue
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil) //nolint:bodyclose // the connection is closed
		if err != nil || response.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
	}
	if served := 300 - refused; served < 50 || served > 70 {
		t.Errorf("%d connections were served, want about half of the descriptors", served)
	}
	if err := harness.IsWellAt("http://" + operator + "/livez"); err != nil {
		t.Errorf("the operator's address during the attack: %v", err)
	}
	open(operator, 300)
	for _, c := range opened {
		_ = c.Close()
	}
	if err := testkit.Retry(well); err != nil {
		t.Errorf("after the attack: %v", err)
	}
}
