package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/gofiber/fiber/v2"
)

// serveBare is a Fiber application as anybody would write it, with one route and a handler that sets the header fields
// and the body of an answer it read from a file. Its arguments are the address, the path and the file.
func serveBare(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bare ADDRESS PATH FILE")
	}
	raw, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
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

// serveLoop does the least that a server on package net does for a request on a kept connection: one read and one write,
// of an answer that it read from a file. Its arguments are the address and the file. What comes in one read is one request,
// as wrk sends it.
func serveLoop(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: loop ADDRESS FILE")
	}
	answer, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	for {
		c, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			var request [4 << 10]byte
			for err := error(nil); err == nil; {
				if _, err = c.Read(request[:]); err == nil {
					_, err = c.Write(answer)
				}
			}
		}()
	}
}
