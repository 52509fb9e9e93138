package proxy

import (
	"bytes"
	"fmt"
	"slices"
)

// framing follows the requests on a connection as their bytes arrive (RFC 9112): where each begins
// and ends. What it refuses never reaches fasthttp, which would wait for CRLF after a bare LF,
// treats both alike if more bytes have come, and counts neither the lines around chunks nor
// trailers. So how the bytes are cut changes nothing about what is answered.
type framing struct {
	limit int // bytes between a header and the end of its request

	part  part
	line  int  // bytes of the current line so far
	last  byte // of these bytes
	names bool // the line may be Content-Length or Transfer-Encoding, as far as it goes
	size  bool // the digits are those of Content-Length, or of a chunk
	name  [len("transfer-encoding")]byte

	head    int // bytes of the request line that are as in a request for HEAD
	chunked bool
	left    int // content of the request or of the chunk that is to come
	body    int // bytes after the header so far

	begun, answered int   // requests
	heads           []int // those of begun that are HEAD, without most that are answered

	unanswered int   // bytes read since the last answer
	refused    error // nothing more is read, since the framing is at fault
	told       bool  // a read returned it
}

// A part of a request.
type part uint8

const (
	between part = iota // requests, where empty lines are skipped
	requestLine
	fields
	content
	chunkSize
	chunkEnd
	trailers
)

var (
	errBareLF = fmt.Errorf("%w: a line ends in LF without CR", errMalformed)
	errFolded = fmt.Errorf("%w: a line continues the one before", errMalformed) // RFC 9112, section 5.2
)

// mostContent bounds a length while it is read, far beyond any limit.
const mostContent = 1 << 40

// follow reads bytes, and returns how many of them are as they have to be, with an error unless all
// are. It is not called again after an error.
func (f *framing) follow(p []byte) (n int, err error) {
	for n < len(p) {
		switch f.part {
		case between:
			if p[n] == '\r' || p[n] == '\n' {
				n++
				continue
			}
			f.begin()
		case content:
			skip := min(f.left, len(p)-n)
			n, f.left, f.body = n+skip, f.left-skip, f.body+skip
			if f.left == 0 {
				f.next()
			}
		default:
			piece, end := p[n:], bytes.IndexByte(p[n:], '\n')
			if end >= 0 {
				piece = piece[:end]
			}
			read, err := f.read(piece)
			if n += read; err != nil || end < 0 {
				return n, err
			}
			if err := f.end(); err != nil {
				return n, err // without the LF, so that fasthttp does not find the line complete
			}
			n++
		}
	}
	return n, nil
}

// begin begins a request.
func (f *framing) begin() {
	f.begun++
	f.part, f.body, f.left, f.chunked, f.head = requestLine, 0, 0, false, 0
	f.newLine()
}

func (f *framing) newLine() {
	f.line, f.last = 0, 0
	f.names, f.size = f.part == fields, f.part == chunkSize
}

// read reads a piece of a line, or as much of it as is within the limit.
func (f *framing) read(piece []byte) (int, error) {
	if len(piece) == 0 {
		return 0, nil
	}
	if f.line == 0 && (f.part == fields || f.part == trailers) && (piece[0] == ' ' || piece[0] == '\t') {
		return 0, errFolded
	}
	if f.part > content {
		if left := f.limit - f.body; len(piece) > left {
			return left, errBodyTooLarge
		}
		f.body += len(piece)
	}
	switch {
	case f.part == requestLine:
		f.readMethod(piece)
	case f.names || f.size:
		f.readSize(piece)
	}
	f.line, f.last = f.line+len(piece), piece[len(piece)-1]
	return len(piece), nil
}

func (f *framing) readMethod(piece []byte) {
	const head = "HEAD "
	for i, c := range piece {
		if f.head != f.line+i || f.head == len(head) || c != head[f.head] {
			return
		}
		if f.head++; f.head == len(head) {
			f.heads = append(slices.DeleteFunc(f.heads, func(i int) bool { return i <= f.answered }), f.begun)
		}
	}
}

// readSize reads the name and value of a field, or the size of a chunk.
func (f *framing) readSize(piece []byte) {
	for i, c := range piece {
		switch {
		case f.names && c == ':':
			name := string(f.name[:f.line+i])
			f.names, f.size = false, name == "content-length"
			f.chunked = f.chunked || name == "transfer-encoding" // fasthttp refuses any but chunked
		case f.names && (f.line+i == len(f.name) || f.line+i == 0 && c|' ' != 'c' && c|' ' != 't'):
			f.names = false
		case f.names:
			f.name[f.line+i] = c | ' '
		}
		if !f.names && !f.size {
			return
		}
		if f.size && c != ':' {
			f.readDigit(c)
		}
	}
}

// readDigit reads a character of a length, or of a chunk's size. Whatever else they have is for
// fasthttp to refuse, but for the blanks around a length and what follows a size.
func (f *framing) readDigit(c byte) {
	base, digit := 10, int(c)-'0'
	if f.part == chunkSize {
		switch base = 16; {
		case 'a' <= c|' ' && c|' ' <= 'f':
			digit = int(c|' ') - 'a' + 10
		case digit < 0 || digit > 9:
			f.size = false // it is over
			return
		}
	}
	if 0 <= digit && digit < base {
		f.left = min(f.left*base+digit, mostContent)
	}
}

// end ends a line.
func (f *framing) end() error {
	if f.last != '\r' {
		return errBareLF
	}
	if f.part > content {
		f.body++
	}
	if f.part > content && f.body > f.limit || f.part == chunkSize && f.body+f.left > f.limit {
		return errBodyTooLarge
	}
	empty := f.line == 1
	switch {
	case f.part == requestLine:
		f.part = fields
		f.newLine()
	case f.part == chunkSize, f.part == chunkEnd, empty:
		f.next()
	default:
		f.newLine()
	}
	return nil
}

// next goes on to the part that follows a whole one.
func (f *framing) next() {
	switch {
	case f.part == fields && f.chunked, f.part == chunkEnd:
		f.part, f.left = chunkSize, 0
	case f.part == chunkSize && f.left == 0:
		f.part = trailers
	case f.part == content && f.chunked:
		f.part = chunkEnd
	case f.left > 0:
		f.part = content
	default:
		f.part = between
	}
	f.newLine()
}

// came reports whether any content of the request that is to be answered next has come.
func (f *framing) came() bool { return f.body > 0 || f.begun > f.answered+1 }

// isHead reports whether the request that is to be answered next is a HEAD.
func (f *framing) isHead() bool { return slices.Contains(f.heads, f.answered+1) }
