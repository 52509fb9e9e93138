package proxy

import (
	"fmt"
	"runtime/debug"

	"github.com/gofiber/fiber/v2"
)

// rescue makes an error of a panic, which would end the process.
func (s *Server) rescue(c *fiber.Ctx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.options.Logger.Error("panic while answering", "panic", p, "stack", string(debug.Stack()))
			c.Response().Reset()
			c.Response().Header.SetNoDefaultContentType(true)
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return c.Next()
}
