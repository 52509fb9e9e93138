package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"sync/atomic"
)

// maxRequestID is the longest request id accepted from a client.
const maxRequestID = 128

// requestIDs makes ids unique among all processes: random per process, counted within it.
type requestIDs struct {
	prefix [17]byte // 64 random bits in hexadecimal, and a dash
	count  atomic.Uint64
}

func newRequestIDs() *requestIDs {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	ids := new(requestIDs)
	hex.Encode(ids.prefix[:16], random[:])
	ids.prefix[16] = '-'
	return ids
}

// requestIDLength is the length of an id made here.
const requestIDLength = 33

// put writes the next id into dst.
func (ids *requestIDs) put(dst *[requestIDLength]byte) {
	const digits = "0123456789abcdef"
	copy(dst[:], ids.prefix[:])
	n := ids.count.Add(1)
	for i := len(dst) - 1; i >= len(ids.prefix); i-- {
		dst[i] = digits[n&15]
		n >>= 4
	}
}

// saneRequestID reports whether a client's id can be repeated in a header and in the log.
func saneRequestID(id []byte) bool {
	if len(id) == 0 || len(id) > maxRequestID {
		return false
	}
	for _, c := range id {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '=', c == '+', c == '/', c == '@':
		default:
			return false
		}
	}
	return true
}
