package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// failUnread answers a request that fasthttp could not read; the connection is closed after it.
func (s *Server) failUnread(ctx *fasthttp.RequestCtx, err error) {
	r := s.newRequest(ctx)
	r.read = len(ctx.Request.Header.RawHeaders()) > 0
	f := &clientOf(ctx).framing
	s.fail(r, unreadError(f, err))
	ctx.Response.SkipBody = ctx.IsHead() || f.isHead() // fasthttp has forgotten most headers it refused
	if ctx.Response.SkipBody {
		r.bytes = 0
	}
	s.finish(r, time.Time{})
}

// unreadError maps an error of reading a request to the table's.
func unreadError(f *framing, err error) error {
	netErr, isNet := errors.AsType[net.Error](err)
	_, isSmall := errors.AsType[*fasthttp.ErrSmallBuffer](err)
	switch {
	case errors.Is(err, errTooManyConnections):
		return err
	case f.told:
		return f.refused
	case isSmall && f.part == requestLine:
		return errTargetTooLong // the buffer is full without a complete line
	case isSmall:
		return errHeaderTooLong
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return errBodyTooLarge
	case isNet && netErr.Timeout():
		return errSlowClient
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends too early", errMalformed)
	}
	return errMalformed
}
