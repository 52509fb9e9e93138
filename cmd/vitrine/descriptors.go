package main

import (
	"syscall"

	"vitrine/config"
)

const (
	// mostConnections is the limit where the system sets none, or a very high one.
	mostConnections = 256 << 10
	// reservedDescriptors are kept for Redis, the CMS, the operator's address and files, also while
	// two services run side by side.
	reservedDescriptors = 512
)

// maxConnections is limits.connections, or without it as many as the process may have descriptors,
// less a reserve.
func maxConnections(c config.Limits) int {
	var limit syscall.Rlimit
	if c.Connections > 0 || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return c.Connections
	}
	descriptors := int(min(limit.Cur, 2*mostConnections))
	return min(mostConnections, descriptors-min(reservedDescriptors, descriptors/2))
}
