package service

import (
	"os"
	"strconv"
	"testing"
)

func TestSocketsThatSystemdCannotHavePassedAreRefused(t *testing.T) {
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("LISTEN_FDS", "1000000000") // more than there is memory for
	if l, err := inherited(); err == nil || l != nil {
		t.Errorf("%v, %v", l, err)
	}
}
