package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// The most bytes of a file with one value, which is far more than any header or URL, and of one
// with settings. A wrong path does not fill memory.
const (
	secretLimit = 64 << 10
	fileLimit   = 1 << 20
)

// pipePatience is how long a pipe is waited for, as one that a program decrypts into.
const pipePatience = 10 * time.Second

// readFile reads a file, perhaps a device or a pipe, which do not say how much they have.
func readFile(path string, most int64) ([]byte, error) { return readWithin(pipePatience, path, most) }

// readWithin opens without blocking, since a pipe blocks until somebody writes to it. Until then it
// is empty.
func readWithin(patience time.Duration, path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, cause(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, cause(err)
	}
	until, isPipe := time.Now().Add(patience), info.Mode()&fs.ModeNamedPipe != 0
	_ = file.SetReadDeadline(until) // fails for an ordinary file, which needs none
	var content []byte
	for {
		content, err = io.ReadAll(io.LimitReader(file, most+1))
		if !isPipe || err != nil || len(content) > 0 || !time.Now().Before(until) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), isPipe && err == nil && len(content) == 0:
		return nil, fmt.Errorf("nothing was written to this pipe in %v", patience)
	case errors.Is(err, syscall.EISDIR):
		return nil, errors.New("it is a folder")
	case err == nil && int64(len(content)) > most:
		return nil, fmt.Errorf("it has more than %s", Size(most))
	}
	return content, cause(err)
}

func readSecret(path string) (string, error) {
	content, err := readFile(path, secretLimit)
	text := strings.TrimSpace(string(content))
	if err == nil && text == "" {
		err = errors.New("it is empty")
	}
	return text, err
}
