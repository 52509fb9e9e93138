//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package listen

import (
	"errors"
	"os"
	"syscall"
)

// lockFolder holds a lock on a folder, which has to exist, until unlock is called. It leaves no file behind.
func lockFolder(folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, os.NewSyscallError("flock", err)
	}
	return func() { _ = f.Close() }, nil // closing gives the lock back
}
