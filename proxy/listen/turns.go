package listen

import (
	"net"
	"runtime"
)

// turnBytes is how much is written before others have their turn: all but large documents.
const turnBytes = 256 << 10

// writeInTurns writes all of pieces, which it uses up. After each turn whatever else is ready runs
// first: a socket can take megabytes at a time, and when dozens of large answers are written on one
// processor, the heartbeat by which memory is trusted would wait for a round of all of them.
func writeInTurns(c net.Conn, pieces [][]byte) error {
	for len(pieces) > 0 {
		var turn net.Buffers
		for left := turnBytes; left > 0 && len(pieces) > 0; {
			n := min(left, len(pieces[0]))
			turn, left = append(turn, pieces[0][:n]), left-n
			if pieces[0] = pieces[0][n:]; len(pieces[0]) == 0 {
				pieces = pieces[1:]
			}
		}
		if _, err := turn.WriteTo(c); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return nil
}
