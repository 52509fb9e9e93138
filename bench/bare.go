package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/gofiber/fiber/v2"
)

// serveBare is an ordinary Fiber application, with one route and a handler that sets the header fields
// and the body of an answer from a file. Its arguments are the address, the path and the file.
func serveBare(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bare ADDRESS PATH FILE")
	}
	raw := try(os.ReadFile(args[2]))
	resp := try(http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil))
	defer resp.Body.Close()
	body := try(io.ReadAll(resp.Body))
	var names, values []string
	for name := range resp.Header {
		if name != "Date" && name != "Content-Length" { // which the server writes by itself
			names, values = append(names, name), append(values, resp.Header.Get(name))
		}
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true, DisableDefaultContentType: true, ReadBufferSize: 16 << 10})
	app.Get(args[1], func(c *fiber.Ctx) error {
		c.Status(resp.StatusCode)
		for i := range names {
			c.Set(names[i], values[i])
		}
		c.Response().SetBodyRaw(body)
		return nil
	})
	return app.Listen(args[0])
}
