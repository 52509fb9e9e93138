//go:build unix

package service

import (
	"math"
	"syscall"
)

// maxDescriptors is the system's limit on this process's descriptors.
func maxDescriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxInt
	}
	return int(min(uint64(limit.Cur), math.MaxInt)) //nolint:unconvert // it is an int64 on FreeBSD
}
