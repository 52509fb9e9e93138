package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// socketMode lets everybody connect, which takes the right to write.
const socketMode = 0o666

// openSocket listens on the unix socket at path.
//
// A process that crashed leaves its socket file behind, and nobody can listen there until it is removed. Whether one
// is left behind or in use is found out by connecting. Two processes that find the same one and each remove "it" would
// end with the second removing the first one's new socket, and a process that has bound its socket but not begun to
// listen looks like one that crashed: so both looking and binding are done while holding a lock on the folder.
func openSocket(ctx context.Context, path string) (net.Listener, error) {
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer unlock()
	if err := removeLeftOver(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeLeftOver removes the socket at path if nobody listens on it. Its error is syscall.EADDRINUSE if somebody does,
// or if what is there is something else.
func removeLeftOver(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w: it is a file, and no socket", syscall.EADDRINUSE)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // nothing was said
		return syscall.EADDRINUSE
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err // a full backlog, or no right to connect: somebody is there
}
