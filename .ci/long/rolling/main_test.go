// Package rolling reloads, upgrades and restarts vitrine under load.
package rolling

import (
	"testing"

	"vitrine/ci/long/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
