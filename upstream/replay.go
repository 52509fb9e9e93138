package upstream

import (
	"bufio"
	"bytes"
	"io/fs"
	"net/http"

	"vitrine/upstream/shape"
)

func (f *folder) holds(name string) bool {
	_, err := fs.Stat(f.files, name)
	return err == nil
}

// replay takes an answer that was recorded as it came over HTTP, head and body
// (curl -i), as it would have been taken from there.
func (f *folder) replay(r shape.Resource, name string, got answer) (answer, error) {
	got.op = "read " + f.prefix + name
	fail := func(err error) (answer, error) {
		return got, &FetchError{Resource: r, Op: got.op, Kind: judge(err).kind, Err: err}
	}
	raw, _, err := f.read(name)
	if err != nil {
		return got, &FetchError{Resource: r, Op: got.op, Kind: ErrAnswer, Err: bareFile(err)}
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return fail(&ContentError{Reason: "not a recorded HTTP answer"})
	}
	defer func() { _ = resp.Body.Close() }() // it is read from memory
	if err := got.take(resp, sizeLimit{f.maxBytes, f.maxBytes}, false, false); err != nil {
		return fail(err)
	}
	got.validators = Validators{} // of a CMS, not of this folder
	return got, nil
}
