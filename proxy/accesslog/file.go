package accesslog

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// A File is a log that is appended to. Its methods can be called concurrently.
type File struct {
	path  string
	log   *slog.Logger
	asked <-chan os.Signal // to reopen
	stop  func()           // of asked

	mu      sync.Mutex // guards the fields below
	file    *os.File
	failing bool // the last write failed
	torn    bool // and had written a part of its line
}

// fileMode lets the owner's group read the log, which has addresses of visitors.
const fileMode fs.FileMode = 0o640

// Open opens or creates the file. Failures to write to it later are told to log.
func Open(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log}
	if err := f.reopen(); err != nil {
		return nil, err
	}
	f.asked, f.stop = signals() // before anybody watches, so that no rotation goes unnoticed
	return f, nil
}

// reopen opens the path again, and keeps the open file if that fails. Once the new file is there,
// nothing more is written to the old one.
func (f *File) reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Without waiting: a named pipe that nobody reads would hold up the start, and a signal to end it.
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, fileMode)
	if err != nil {
		return err
	}
	old := f.file
	if f.file = file; old != nil {
		return old.Close()
	}
	return nil
}

// Write appends a line. The first of several failures in a row is logged.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	if f.torn { // the line before ends here
		_, err := f.file.WriteString("\n")
		f.torn = err != nil
	}
	n, err := f.file.Write(p)
	changed := (err != nil) != f.failing
	f.failing, f.torn = err != nil, f.torn || err != nil && n > 0
	f.mu.Unlock()
	switch {
	case changed && err != nil:
		f.log.Warn("access log not written", "error", err)
	case changed:
		f.log.Info("access log written again", "file", f.path)
	}
	return n, err
}

// Watch opens the path again at each SIGUSR1, after log rotation has moved the file, until ctx
// ends.
func (f *File) Watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.asked:
		}
		if err := f.reopen(); err != nil {
			f.log.ErrorContext(ctx, "access log not reopened", "error", err)
		}
	}
}

// Close closes the file. Writes fail from now on. A nil File has nothing to close.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = true // requests that are cut off are not worth a line
	if err := f.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
