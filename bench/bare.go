package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"unsafe"

	"github.com/gofiber/fiber/v2"
)

// serveBare is a Fiber application as anybody would write it, with one route and a handler that
// sets the header fields and the body of an answer it read from a file. Its arguments are the
// address, the path and the file.
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

// serveLoop does the least that a server on package net does for a request on a kept connection:
// one read and one write of an answer that it read from a file, both as vitrine makes them, without
// telling Go's scheduler where the answer is small enough for that. Its arguments are the address
// and the file. One read brings one request, as wrk sends it.
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
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			repeat(c, raw, answer)
		}()
	}
}

// rawBytes is the most that vitrine writes without telling the scheduler (proxy/listen).
const rawBytes = 64 << 10

// repeat answers until the connection ends, or fails.
func repeat(c net.Conn, raw syscall.RawConn, answer []byte) {
	var request [4 << 10]byte
	var left []byte
	var n int
	call := func(number, fd uintptr, p []byte) bool {
		r, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		n = int(r) // -1 after an error
		return errno != syscall.EAGAIN
	}
	read := func(fd uintptr) bool { return call(syscall.SYS_READ, fd, request[:]) }
	write := func(fd uintptr) bool { return call(syscall.SYS_WRITE, fd, left) }
	for {
		if raw.Read(read) != nil || n <= 0 {
			return
		}
		if len(answer) > rawBytes {
			if _, err := c.Write(answer); err != nil {
				return
			}
			continue
		}
		for left = answer; len(left) > 0; left = left[n:] {
			if raw.Write(write) != nil || n <= 0 {
				return
			}
		}
	}
}
