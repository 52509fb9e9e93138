//go:build unix

package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func sharePort(conn syscall.RawConn, on int) (err error) {
	failed := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, on)
	})
	if err == nil {
		err = failed
	}
	return err
}
