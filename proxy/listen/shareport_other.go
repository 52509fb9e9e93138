//go:build !unix

package listen

import "syscall"

func sharePort(syscall.RawConn, int) error { return syscall.EADDRINUSE }
