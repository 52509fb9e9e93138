package proxy

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
)

// http1 is the beginning of the only major version supported.
var http1 = []byte("HTTP/1.")

// check refuses what fasthttp lets through.
func (s *Server) check(c *fiber.Ctx) error {
	r, h := requestOf(c), &c.Request().Header
	switch {
	case !bytes.HasPrefix(h.Protocol(), http1):
		return errVersion
	case r.malformed:
		return errMalformed
	case len(h.RequestURI()) > s.options.MaxTargetBytes:
		return errTargetTooLong
	case len(h.RawHeaders()) > s.options.MaxHeaderBytes:
		return errHeaderTooLong
	}
	return c.Next()
}
