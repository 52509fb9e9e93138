// Package faults tries what can go wrong around vitrine, alone and in pairs: docs/failures.md.
package faults

import (
	"testing"

	"vitrine/ci/long/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
