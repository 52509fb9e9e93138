//go:build !unix

package service

import "math"

// maxDescriptors is the system's limit on this process's descriptors: none.
func maxDescriptors() int { return math.MaxInt }
