//go:build !linux || race

package listen

import "net"

// A lean is a connection's socket, read and written in the usual way. The one for Linux saves
// system calls.
type lean struct{ net.Conn }

func newLean(c net.Conn) *lean { return &lean{c} }

// buffered reports whether a read would not wait.
func (l *lean) buffered() bool { return false }

// write writes all of pieces.
func (l *lean) write(pieces [][]byte) error { return writeInTurns(l.Conn, pieces) }
