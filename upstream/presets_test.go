package upstream

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/presets"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

var update = flag.Bool("update", false, "write the documents that presets make of their answers")

// TestAPresetIsOneFileAndItsAnswers finds everything about a preset by its name, so that adding one
// takes nothing else: the answers of its CMS, recorded or written, in presets/testdata, and beside
// them the documents that it makes of them. Those of the presets that were recorded from a whole
// site are tested against its rows, in cmd/vitrine.
func TestAPresetIsOneFileAndItsAnswers(t *testing.T) {
	files, err := fs.Glob(presets.FS, "*.yaml")
	if err != nil || len(files) < 13 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".yaml")
		t.Run(name, func(t *testing.T) {
			text, err := fs.ReadFile(presets.FS, file)
			testkit.Must(t, err)
			if n := bytes.Count(text, []byte("\n")); n > 60 || name != "custom" && !bytes.Contains(text, []byte("Answers: ")) {
				t.Errorf("%d lines, or not a word about its answers", n)
			}
			answers := filepath.Join("presets", "testdata", name)
			if _, err := os.Stat(answers); errors.Is(err, fs.ErrNotExist) {
				if _, err := os.Stat(filepath.Join("upstreamtest", "recorded", name)); err != nil && name != "custom" {
					t.Error("there are no answers of it")
				}
				return
			}
			client := newClient(t, "file:"+answers, func(o *options) { o.Preset = name })
			for _, r := range shape.Resources() {
				got := mustFetch(t, client, r)
				if len(got.Suspicions) > 0 {
					t.Errorf("%s: %v", r, got.Suspicions)
				}
				golden := filepath.Join(answers, "want", string(r)+".json")
				pretty := append(shape.Indent(nil, got.Document.Body, 1), 10)
				if *update {
					testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(golden), 0o755), os.WriteFile(golden, pretty, 0o644)))
				}
				want, err := os.ReadFile(golden)
				if err != nil || !bytes.Equal(pretty, want) {
					t.Errorf("%s: %v\n%s", r, err, pretty)
				}
			}
		})
	}
}

// A relation that PocketBase leaves out because a rule hides it is refused: the answers were
// recorded while pages and countries were hidden.
func TestARelationThatPocketBaseHidesIsRefused(t *testing.T) {
	client := newClient(t, "file:"+filepath.Join("presets", "testdata", "pocketbase", "hidden"), func(o *options) { o.Preset = "pocketbase" })
	for _, r := range []shape.Resource{shape.Catalogue, shape.Rules} {
		if _, err := client.Fetch(t.Context(), r, Held{}); err == nil || !strings.Contains(err.Error(), "is not expanded, or not permitted") {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// The others answer with fewer records, or with none: recorded with rules for all of 20 artworks, for
// one, and for none.
func TestRecordsThatPocketBaseHidesAreALoss(t *testing.T) {
	recorded := filepath.Join("presets", "testdata", "pocketbase")
	fetch := func(artworks string) []byte {
		dir := t.TempDir()
		testkit.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(recorded, "full"))))
		text, err := os.ReadFile(filepath.Join(recorded, artworks, "catalogue.artwork.http"))
		testkit.Must(t, errors.Join(err, os.WriteFile(filepath.Join(dir, "catalogue.artwork.http"), text, 0o600)))
		return mustFetch(t, newClient(t, "file:"+dir, func(o *options) { o.Preset = "pocketbase" }), shape.Catalogue).Document.Body
	}
	for artworks, want := range map[string]shape.Loss{
		"few":  {Reason: "1 artwork, 20 before", Before: 20, Now: 1},
		"none": {Reason: "no artworks, 20 before", Before: 20, Lasting: true},
	} {
		if got := shape.Judge(shape.Catalogue, fetch("full"), fetch(artworks), 0.5); got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", artworks, got, want)
		}
	}
}

func TestStrapiPagesEndByTheirMeta(t *testing.T) {
	for name, c := range map[string]struct {
		meta string // %d is the page
		want string
	}{
		"page count":         {`"page":%d,"pageSize":2,"pageCount":3,"total":5`, "[1 2 3 4 5]"},
		"without count":      {`"page":%d,"pageSize":2`, "[1 2 3 4 5]"},
		"not even its size":  {`"page":%d`, "[1 2 3 4 5]"},
		"a total that lies":  {`"page":%d,"pageSize":2,"pageCount":3,"total":6`, ""},
		"a count that lies":  {`"page":%d,"pageSize":2,"pageCount":2,"total":5`, "[1 2 3 4 5]"},
		"a count beyond end": {`"page":%d,"pageSize":2,"pageCount":9,"total":5`, "[1 2 3 4 5]"},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			pages(cms, "/api/banners", func(query func(string) string) string {
				n, _ := strconv.Atoi(query("pagination[page]"))
				items := map[int]string{1: bannerList(1, 2), 2: bannerList(3, 2), 3: bannerList(5, 1)}[n]
				return `{"data":[` + items + `],"meta":{"pagination":{` + fmt.Sprintf(c.meta, n) + `}}}`
			})
			client := newClient(t, cms.URL, func(o *options) { o.Preset, o.Shared.Map = "strapi5", "." })
			if c.want == "" {
				wantRefusal(t, client, "were sent")
				return
			}
			wantIDs(t, client, c.want)
			if q := cms.Requests()[0].Query; q != "pagination%5BpageSize%5D=100&pagination%5Bpage%5D=1&sort%5B0%5D=createdAt&sort%5B1%5D=documentId" {
				t.Errorf("asked for %s", q)
			}
		})
	}
}

func TestRecordedTornWalkIsSeen(t *testing.T) {
	cms := upstreamtest.New(t)
	answers := map[string]http.Handler{}
	for _, name := range []string{"page1", "page2", "page3", "full"} {
		answers[name] = upstreamtest.Recorded(t, upstreamtest.Recording(t, "strapi5/torn-walk-"+name))
	}
	walks := 0
	cms.HandlePath("/api/artists", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		page := req.URL.Query().Get("pagination[page]")
		if page == "1" {
			walks++
		}
		answer := answers["page"+page]
		if walks > 1 {
			answer = answers["full"]
		}
		answer.ServeHTTP(w, req)
	}))
	client := newClient(t, cms.URL, func(o *options) {
		o.Preset = "strapi5"
		o.Resources = map[shape.Resource]source.Resource{shape.Catalogue: {
			Parts: []source.Part{{Name: "artist", Map: ".gallery_artists = null"}}, Map: "{artist: .artist}",
		}}
	})
	got := mustFetch(t, client, shape.Catalogue)
	if walks != 2 || got.Document.Items != 6 || got.Attempts != 4 {
		t.Errorf("%d walks brought %d artists in %d attempts; want 6 in 2 walks of 3 pages and 1", walks, got.Document.Items, got.Attempts)
	}
}

func TestDirectusListIsReadPastACappedLimit(t *testing.T) {
	cms := upstreamtest.New(t)
	for _, counted := range []bool{true, false} {
		pages(cms, "/items/banners", func(query func(string) string) string {
			limit, _ := strconv.Atoi(query("limit"))
			offset, _ := strconv.Atoi(query("offset"))
			if limit > 3 {
				return "400" // as a Directus with a maximum of 3 answers
			}
			if limit < 0 {
				limit = 3
			}
			n := max(min(limit, 7-offset), 0)
			meta := ""
			if counted {
				meta = `"meta":{"filter_count":"7"},`
			}
			return `{` + meta + `"data":[` + bannerList(1+offset, n) + `]}`
		})
		before := len(cms.Requests())
		wantIDs(t, paged(t, cms, "directus", source.Part{}), "[1 2 3 4 5 6 7]")
		asked := len(cms.Requests()) - before
		if want := map[bool]int{true: 3, false: 4}[counted]; asked != want {
			t.Errorf("counted %t: %d requests, want %d", counted, asked, want)
		}
	}
}

func TestWordPressPagesEndByTheirHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		total, pages string
		want         string
	}{
		"counted":          {"3", "2", "[1 2 3]"},
		"headers lost":     {"", "", "[1 2 3]"},
		"a page too many":  {"3", "3", "[1 2 3]"},
		"hidden posts":     {"4", "2", ""},
		"one page in fact": {"2", "1", "[1 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			pastEnd := upstreamtest.Recorded(t, upstreamtest.Recording(t, "wordpress/posts-page9-past-end-400"))
			cms.HandlePath("/wp-json/wp/v2/banners", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, ok := map[string]string{"1": bannerList(1, 2), "2": bannerList(3, 1)}[req.URL.Query().Get("page")]
				if !ok {
					pastEnd.ServeHTTP(w, req)
					return
				}
				header := []string{}
				if c.total != "" {
					header = []string{"X-WP-Total", c.total, "X-WP-TotalPages", c.pages}
				}
				upstreamtest.JSON("["+body+"]", header...).ServeHTTP(w, req)
			}))
			client := paged(t, cms, "wordpress", source.Part{})
			if c.want == "" {
				_, err := ids(t, client)
				wantError(t, err, ErrAnswer, "")
				if !strings.Contains(err.Error(), "3 walks") {
					t.Errorf("%v: no word of walks", err)
				}
				return
			}
			wantIDs(t, client, c.want)
			if got := mustFetch(t, client, shape.Banners).Validators; got != (Validators{}) {
				t.Errorf("validators %+v, though the counts are not what they are of", got)
			}
		})
	}
	t.Run("hidden posts that are known of", func(t *testing.T) {
		cms := upstreamtest.New(t)
		cms.HandlePath("/wp-json/wp/v2/banners", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Query().Get("page") != "1" {
				upstreamtest.Status(400).ServeHTTP(w, req)
				return
			}
			upstreamtest.JSON("["+bannerList(1, 2)+"]", "X-WP-Total", "3", "X-WP-TotalPages", "1").ServeHTTP(w, req)
		}))
		wantIDs(t, paged(t, cms, "wordpress", source.Part{Paging: source.Paging{Total: "-"}}), "[1 2]")
	})
}
