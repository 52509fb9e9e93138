package main

import (
	"os"
	"testing"
)

// lacking ends a test that needs a tool which is not there: it says how to get it, and is a failure
// where everything has to be tried.
func lacking(t *testing.T, tool, debianPackage string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is needed: apt-get install %s", tool, debianPackage)
	}
	t.Skipf("%s is not installed: apt-get install %s", tool, debianPackage)
}
