// Package operating runs what the documentation tells operators to type, and what watches
// vitrine: systemd, Prometheus.
package operating

import (
	"testing"

	"vitrine/ci/long/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
