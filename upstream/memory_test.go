package upstream

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/shape"
)

// TestAFetchTakesAtMostSixTimesWhatItReadsOrWrites fetches lists of generated shapes, whose written
// form is from a thirtieth to thirty times what is read, in each way of mapping. The most that the
// heap holds during the fetch, garbage included, is 8 MiB and six times the larger of the two.
func TestAFetchTakesAtMostSixTimesWhatItReadsOrWrites(t *testing.T) {
	const seed, shapes, most = 1, 3, 8 << 20
	for _, way := range []struct{ name, preset, envelope, program string }{
		{"untouched", "drf", "[%s]", ""},
		{"converted", "strapi5", `{"data":[%s],"meta":{"pagination":{"page":1,"pageSize":1000000,"pageCount":1,"total":%d}}}`, ""},
		{"programs", "custom", "[%s]", "."},
	} {
		t.Run(way.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, seed))
			for range shapes {
				read, beginning, cms := fromDisk(t, func() string {
					items, n := generate(random, most/4)
					return strings.Replace(strings.Replace(way.envelope, "%d", fmt.Sprint(n), 1), "%s", items, 1)
				})
				client := newClient(t, "http://cms", func(o *options) {
					o.Preset, o.MaxBytes, o.Timeout, o.Transport = way.preset, most, time.Minute, cms
					o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {Empty: true}, shape.Rules: {Empty: true}, shape.Banners: {
						Parts: []source.Part{{Path: "banners", Map: way.program, Paging: source.Paging{MaxItems: 1_000_000}}},
					}}
				})
				var got Result
				var err error
				took := heapPeak(t, func() { got, err = client.Fetch(t.Context(), shape.Banners, Validators{}) })
				written := len(got.Document.Body)
				if err != nil && strings.Contains(err.Error(), fmt.Sprintf("at most %d bytes", most)) {
					written = most
				} else if err != nil {
					t.Error(err)
				}
				if bound := 8<<20 + 6*max(read, written); took > bound {
					t.Errorf("%d bytes read and %d written take %d, want at most %d: %s…", read, written, took, bound, beginning)
				}
			}
		})
	}
}

// fromDisk is a CMS that sends a body of a length, which is in a file so that it takes no memory.
func fromDisk(t *testing.T, body func() string) (length int, beginning string, cms roundTrip) {
	t.Helper()
	file, text := filepath.Join(t.TempDir(), "body"), body()
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	length, beginning = len(text), strings.Clone(text[:min(len(text), 200)])
	return length, beginning, func(req *http.Request) (*http.Response, error) {
		body, err := os.Open(file)
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(length), Request: req, Body: body,
		}, err
	}
}

// generate makes the inside of a list of banners: one to three stretches of items of one kind, with
// few or all of the documented fields, in order or not, long or short, and more or less that is
// dropped.
func generate(random *rand.Rand, most int) (items string, n int) {
	var out strings.Builder
	for stretches := 1 + random.IntN(3); stretches > 0; stretches-- {
		fields := strings.Split(bannerOf(0, strings.Repeat("é", random.IntN(1<<random.IntN(8)))), ",")[1:]
		random.Shuffle(random.IntN(2)*len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		fields = append(fields[:random.IntN(1+random.IntN(1+len(fields)))], `"documentId":"d%[1]d"`)
		if random.IntN(2) == 0 {
			fields = append(fields, fmt.Sprintf(`"x":%q`, strings.Repeat("x", random.IntN(1<<random.IntN(12)))))
		}
		item := `{"id":%[1]d,` + strings.Join(fields, ",") + "},"
		for until := out.Len() + 1 + random.IntN(most/3); out.Len() < until; n++ {
			fmt.Fprintf(&out, item, n+1)
		}
	}
	return strings.TrimSuffix(out.String(), ","), n
}

// bannerOf is the inside of a banner with all fields.
func bannerOf(id int, title string) string {
	return fmt.Sprintf(`"id":%d,"title_en":%q,"title_nl":"","title_fr":"","button_text_en":"","button_text_nl":"","button_text_fr":"",`+
		`"redirect_link_en":"/en","redirect_link_nl":"","redirect_link_fr":"","language_en":true,"language_nl":false,"language_fr":false,`+
		`"created_at":"2024-03-01T10:00:00.000000Z","updated_at":"2024-03-01T10:00:00.000000Z"`, id, title)
}

// heapPeak is by how much the heap grew at most, including garbage that was not collected yet.
func heapPeak(t *testing.T, do func()) int {
	t.Helper()
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	before, most := sample[0].Value.Uint64(), uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	do()
	close(stop)
	testkit.Receive(t, done)
	return int(most) - int(before)
}

// TestMemoryTakenWhileTheCMSIsAwaitedIsNotThatOfPrograms has something else take memory meanwhile.
func TestMemoryTakenWhileTheCMSIsAwaitedIsNotThatOfPrograms(t *testing.T) {
	var taken []byte
	client := newClient(t, "http://cms", func(o *options) {
		o.Preset = "custom"
		o.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
			taken = make([]byte, 100<<20)
			<-time.After(50 * time.Millisecond)
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
				Body: io.NopCloser(strings.NewReader("[{" + bannerOf(1, "a") + "}]")),
			}, nil
		})
		o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {Empty: true}, shape.Rules: {Empty: true}, shape.Banners: {
			Parts: []source.Part{{Path: "banners", Items: "map(.)"}},
		}}
	})
	if _, err := client.Fetch(t.Context(), shape.Banners, Validators{}); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(taken)
}
