package represent

import (
	"bytes"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	brotli "github.com/molecule-man/go-brrr" // fasthttp links it, too

	"vitrine/proxy/negotiate"
)

// An effort is how much work a representation is worth.
type effort uint8

const (
	// strong is for the document as it is, which most visitors get: compressed once until it
	// changes.
	strong effort = iota
	// quick is for an ordering or an indentation. There are far more of these than are kept, and
	// with the stronger levels one request could cost 100 ms of CPU.
	quick
)

// brotliStrong is the size in bytes up to which brotli is worth level 9, which compresses five
// megabytes a second; level 5 does thirty. Level 11 would make the first visitor after a change
// wait a hundred milliseconds for 55 KB, for a body a seventh smaller.
const brotliStrong = 256 << 10

// zstdWindow is the largest window that every browser supports (RFC 9659, section 3).
const zstdWindow = 8 << 20

// compress encodes body. The result has no spare capacity, since it is held for long. A panic of an
// encoder is an error: the document can be served without compression.
func compress(e negotiate.Encoding, body []byte, how effort) (encoded []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			encoded, err = nil, fmt.Errorf("compress: panic: %v", p)
		}
	}()
	if e == negotiate.Zstd {
		return compressZstd(body, how)
	}
	var out bytes.Buffer
	var w io.WriteCloser
	switch e {
	case negotiate.Brotli:
		w, err = brotli.NewWriterOptions(&out, brotliLevel(len(body), how), brotli.WriterOptions{
			LGWin: brotliWindow(len(body)), SizeHint: uint(len(body)),
		})
	case negotiate.Gzip:
		level := gzip.BestCompression
		if how == quick {
			level = gzip.DefaultCompression
		}
		w, err = gzip.NewWriterLevel(&out, level)
	default:
		err = fmt.Errorf("no content coding %d", e)
	}
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	for piece := range slices.Chunk(body, 32<<10) {
		if _, err := w.Write(piece); err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
		runtime.Gosched() // let hits run
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return bytes.Clone(out.Bytes()), nil
}

func brotliLevel(size int, how effort) int {
	if how == quick || size > brotliStrong {
		return 5
	}
	return 9
}

// brotliWindow is the base-2 logarithm of a window for a body of this size, within the format's
// bounds. Brotli's memory grows with its window: 32 MB for the default of 22, which none of these
// documents fills.
func brotliWindow(size int) int {
	const reserved = 16 // of each window (RFC 7932, section 9.1)
	return min(max(bits.Len(uint(size+reserved-1)), 10), 22)
}

// zstdBest is the size in bytes from which zstd's best level is worth the 34 MB of its tables.
const zstdBest = 1 << 20

func compressZstd(body []byte, how effort) ([]byte, error) {
	level := zstd.SpeedBestCompression
	switch {
	case how == quick:
		level = zstd.SpeedDefault
	case len(body) < zstdBest:
		level = zstd.SpeedBetterCompression
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(max(zstd.MinWindowSize, min(zstdWindow, 1<<bits.Len(uint(len(body)))))), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	defer w.Close() //nolint:errcheck // EncodeAll leaves nothing to flush
	return bytes.Clone(w.EncodeAll(body, nil)), nil
}
