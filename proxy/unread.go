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
	c := clientOf(ctx)
	s.fail(r, unreadError(c, err))
	ctx.Response.SkipBody = ctx.IsHead() || c != nil && c.framing.isHead() // fasthttp has forgotten most headers it refused
	if ctx.Response.SkipBody {
		r.bytes = 0
	}
	s.finish(r, time.Time{})
}

// unreadError maps an error of reading a request to the table's.
func unreadError(c *client, err error) error {
	netErr, isNet := errors.AsType[net.Error](err)
	_, isSmall := errors.AsType[*fasthttp.ErrSmallBuffer](err)
	switch {
	case errors.Is(err, errTooManyConnections):
		return err
	case c != nil && c.told:
		return c.refused
	case isSmall && c != nil && c.framing.part == requestLine:
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
