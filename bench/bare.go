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

// serveBare is the other side of the comparison: a Fiber application as anybody would write it, with one route and a
// handler that sets the header fields and the body of an answer it read from a file. Its arguments are the address,
// the path and the file.
func serveBare(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bare ADDRESS PATH FILE")
	}
	status, names, values, body, err := readAnswer(args[2])
	if err != nil {
		return err
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true, DisableDefaultContentType: true, ReadBufferSize: 16 << 10})
	app.Get(args[1], func(c *fiber.Ctx) error {
		c.Status(status)
		for i := range names {
			c.Set(names[i], values[i])
		}
		c.Response().SetBodyRaw(body)
		return nil
	})
	return app.Listen(args[0])
}

// readAnswer reads a recorded answer. What the server writes by itself is left out.
func readAnswer(file string) (status int, names, values []string, body []byte, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, nil, nil, nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return 0, nil, nil, nil, err
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		return 0, nil, nil, nil, err
	}
	for name := range resp.Header {
		if name != "Date" && name != "Content-Length" && name != "Connection" {
			names, values = append(names, name), append(values, resp.Header.Get(name))
		}
	}
	return resp.StatusCode, names, values, body, nil
}
