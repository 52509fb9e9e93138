package mapping

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"

	"vitrine/upstream/plain"
	"vitrine/upstream/shape"
)

// job is a request to the process: one of the two.
type job struct {
	Compose *Composition
	Open    *Opening
	Memory  int   // memory limit, in bytes
	Items   []int // how many each part of Compose has
}

// reply is the process's response.
type reply struct {
	Body    []byte
	Page    Page
	Refused *shape.RefusedError // at most one of the errors is set
	Program *wireError
	Other   string
}

// wireError is a ProgramError.
type wireError struct {
	Program, Text, Input, Err string
	Line, File                int
}

// A wire carries jobs and replies. The bytes of responses follow each message as they are, since
// gob would copy them several times.
type wire struct {
	in   *bufio.Reader
	out  *bufio.Writer
	from *gob.Decoder
	to   *gob.Encoder
}

func newWire(in io.Reader, out io.Writer) *wire {
	w := &wire{in: bufio.NewReader(in), out: bufio.NewWriter(out)}
	w.from, w.to = gob.NewDecoder(w.in), gob.NewEncoder(w.out)
	return w
}

func (w *wire) sendJob(j job) error {
	var raw [][]byte
	if j.Open != nil {
		o := *j.Open
		raw, o.Body = [][]byte{o.Body}, nil
		j.Open = &o
	}
	if j.Compose != nil {
		c := *j.Compose
		c.Parts = slices.Clone(c.Parts)
		for i := range c.Parts {
			raw = append(raw, c.Parts[i].Items...)
			j.Items = append(j.Items, len(c.Parts[i].Items))
			c.Parts[i].Items = nil
		}
		j.Compose = &c
	}
	return w.send(j, raw)
}

func (w *wire) receiveJob() (j job, err error) {
	raw, err := w.receive(&j)
	switch {
	case err != nil:
	case j.Open != nil:
		j.Open.Body = raw[0]
	case j.Compose != nil:
		for i, n := range j.Items {
			j.Compose.Parts[i].Items, raw = raw[:n], raw[n:]
		}
	}
	return j, err
}

func (w *wire) sendReply(r reply) error {
	raw := append([][]byte{r.Body}, r.Page.Items...)
	r.Body, r.Page.Items = nil, nil
	return w.send(r, raw)
}

func (w *wire) receiveReply() (r reply, err error) {
	raw, err := w.receive(&r)
	if err == nil {
		r.Body, r.Page.Items = raw[0], raw[1:]
	}
	return r, err
}

func (w *wire) send(message any, raw [][]byte) error {
	sizes := make([]int, len(raw))
	for i := range raw {
		sizes[i] = len(raw[i])
	}
	err := w.to.Encode(message)
	if err == nil {
		err = w.to.Encode(sizes)
	}
	for i := 0; err == nil && i < len(raw); i++ {
		_, err = w.out.Write(raw[i])
	}
	if err != nil {
		return err
	}
	return w.out.Flush()
}

func (w *wire) receive(message any) ([][]byte, error) {
	var sizes []int
	if err := w.from.Decode(message); err != nil {
		return nil, err
	}
	if err := w.from.Decode(&sizes); err != nil {
		return nil, err
	}
	total := 0
	for _, n := range sizes {
		total += n
	}
	all := make([]byte, total)
	if _, err := io.ReadFull(w.in, all); err != nil {
		return nil, err
	}
	raw := make([][]byte, len(sizes))
	for i, n := range sizes {
		raw[i], all = all[:n:n], all[n:]
	}
	return raw, nil
}

// err returns the error of a reply.
func (r *reply) err() error {
	switch {
	case r.Refused != nil:
		return r.Refused
	case r.Program != nil:
		e := r.Program
		return &ProgramError{Program: e.Program, Line: e.Line, File: e.File, Text: e.Text, Input: e.Input, Err: errors.New(e.Err)}
	case r.Other != "":
		return fmt.Errorf("%w: %s", ErrProgram, r.Other)
	}
	return nil
}

// setErr sets the error of a reply.
func (r *reply) setErr(err error) {
	if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
		r.Refused = refused
	} else if e, ok := errors.AsType[*ProgramError](err); ok {
		r.Program = &wireError{e.Program, e.Text, e.Input, plain.Clip(e.Err.Error(), 500), e.Line, e.File}
	} else {
		r.Other = err.Error()
	}
}
