// Package page looks at the operator's page in Chromium.
package page

import (
	"testing"

	"vitrine/ci/long/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
