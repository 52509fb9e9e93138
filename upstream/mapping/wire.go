package mapping

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"vitrine/upstream/plain"
	"vitrine/upstream/shape"
)

// job is a request to the process: one of the two.
type job struct {
	Compose *Composition
	Open    *Opening
	Memory  int      // memory limit, in bytes
	body    [][]byte // of Open, alone
}

// reply is the process's response.
type reply struct {
	Page    Page                // the items of Open, or as its only item the result of Compose
	Refused *shape.RefusedError // at most one of the errors is set
	Program *ProgramError
	Other   string // the text of any other error, or of Program's
}

// A message is a job or a reply. On the wire it is a line of JSON. The bytes of responses, which
// JSON leaves out, follow it as they are, since encoding would copy them several times.
type message interface{ raw() []*[][]byte }

func (j *job) raw() (lists []*[][]byte) {
	if j.Open != nil {
		return append(lists, &j.body)
	}
	for i := range j.Compose.Parts {
		lists = append(lists, &j.Compose.Parts[i].Items)
	}
	return lists
}

func (r *reply) raw() []*[][]byte { return []*[][]byte{&r.Page.Items} }

// A line is a message, and the sizes of the bytes that follow it.
type line struct {
	Message message
	Sizes   [][]int
}

// A wire carries messages.
type wire struct {
	in  *bufio.Reader
	out *bufio.Writer
}

func newWire(in io.Reader, out io.Writer) *wire {
	return &wire{bufio.NewReader(in), bufio.NewWriter(out)}
}

func (w *wire) send(m message) error {
	sizes := make([][]int, len(m.raw()))
	for i, list := range m.raw() {
		for _, raw := range *list {
			sizes[i] = append(sizes[i], len(raw))
		}
	}
	if err := json.NewEncoder(w.out).Encode(line{m, sizes}); err != nil {
		return err
	}
	for _, list := range m.raw() {
		for _, raw := range *list {
			if _, err := w.out.Write(raw); err != nil {
				return err
			}
		}
	}
	return w.out.Flush()
}

func (w *wire) receive(m message) error {
	text, err := w.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	got := line{Message: m}
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	for i, list := range m.raw() {
		total := 0
		for _, n := range got.Sizes[i] {
			total += n
		}
		all := make([]byte, total)
		if _, err := io.ReadFull(w.in, all); err != nil {
			return err
		}
		for _, n := range got.Sizes[i] {
			*list, all = append(*list, all[:n:n]), all[n:]
		}
	}
	return nil
}

// err returns the error of a reply.
func (r *reply) err() error {
	switch {
	case r.Refused != nil:
		return r.Refused
	case r.Program != nil:
		r.Program.Err = errors.New(r.Other)
		return r.Program
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
		r.Program, r.Other = e, plain.Clip(e.Err.Error(), 500)
	} else {
		r.Other = err.Error()
	}
}
