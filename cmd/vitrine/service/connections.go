package service

import "vitrine/config"

const (
	// mostConnections is the limit if the system's is higher or absent.
	mostConnections = 256 << 10
	// reservedDescriptors are reserved for Redis, the CMS, the operator's address and files, even
	// while two services run.
	reservedDescriptors = 512
)

// maxConnections is limits.connections, or by default the limit on descriptors, less a reserve.
func maxConnections(c config.Limits) int {
	if c.Connections > 0 {
		return c.Connections
	}
	n := min(maxDescriptors(), 2*mostConnections)
	return min(mostConnections, n-min(reservedDescriptors, n/2))
}
