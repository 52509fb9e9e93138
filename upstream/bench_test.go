package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// megabytes is a catalogue of about 5 MB: the recorded one, over and over.
func megabytes(tb testing.TB) []byte {
	tb.Helper()
	_, body, _ := bytes.Cut(upstreamtest.Recording(tb, "gvapp-get"), []byte("\r\n\r\n"))
	var one, all map[string][]json.RawMessage
	if err := json.Unmarshal(body, &one); err != nil {
		tb.Fatal(err)
	}
	all = make(map[string][]json.RawMessage)
	for range 5 << 20 / len(body) {
		for name, items := range one {
			all[name] = append(all[name], items...)
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// BenchmarkFetchCatalogue goes from the CMS's bytes, over HTTP, to the document's. The CMS runs in
// the same process: what its part takes, and the network's, is what BenchmarkReadCatalogue takes,
// which only reads the answer.
func BenchmarkFetchCatalogue(b *testing.B) {
	in := megabytes(b)
	cms := upstreamtest.New(b)
	cms.Handle(shape.Catalogue, upstreamtest.JSON(string(in), "Content-Length", strconv.Itoa(len(in))))
	client, err := New(Options{URL: cms.URL})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	before := spent(b)
	for b.Loop() {
		if _, err := client.Fetch(b.Context(), shape.Catalogue, Validators{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(in))/1e6/(spent(b)-before).Seconds(), "MB/cpu-s")
}

// spent is the processor time of this process, which the neighbours on a busy machine do not
// change.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkReadCatalogue(b *testing.B) {
	in := megabytes(b)
	cms := upstreamtest.New(b)
	cms.Handle(shape.Catalogue, upstreamtest.JSON(string(in), "Content-Length", strconv.Itoa(len(in))))
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		resp, err := client.Get(cms.URL + upstreamtest.Path(shape.Catalogue))
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || n != int64(len(in)) {
			b.Fatalf("%d bytes, %v", n, err)
		}
		if err := resp.Body.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFiveMegabytesAreFetchedFrugally counts all that is allocated from the request to the
// document, which bounds what is held at any moment.
func TestFiveMegabytesAreFetchedFrugally(t *testing.T) {
	in := megabytes(t)
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	mustFetch(t, client, shape.Catalogue) // the connection
	cms.Handle(shape.Catalogue, upstreamtest.JSON(string(in), "Content-Length", strconv.Itoa(len(in))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := mustFetch(t, client, shape.Catalogue)
	runtime.ReadMemStats(&after)
	if allocated, most := after.TotalAlloc-before.TotalAlloc, 6*uint64(len(got.Document.Body)); allocated > most {
		t.Errorf("allocated %d bytes for a document of %d, want at most six times that", allocated, len(got.Document.Body))
	}
}
