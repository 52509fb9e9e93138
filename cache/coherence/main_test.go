package coherence

import (
	"testing"

	"go.uber.org/goleak"

	"vitrine/cmd/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually waits for something that another goroutine or process is about to bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, what, ok)
}
