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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/guard"
	"vitrine/upstream/mapping"
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
				lost := func(f guard.Finding) bool { return f.Kind == guard.Dangling && name == "contentful" } // one link leads nowhere
				if len(slices.DeleteFunc(got.Warnings, lost)) > 0 {
					t.Errorf("%s: %v", r, got.Warnings)
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

// A relation that PocketBase leaves out because a rule hides it is null, with a content warning: the
// answers were recorded while pages and countries were hidden.
func TestARelationThatPocketBaseHidesIsNull(t *testing.T) {
	client := newClient(t, "file:"+filepath.Join("presets", "testdata", "pocketbase", "hidden"), func(o *options) { o.Preset = "pocketbase" })
	for r, null := range map[shape.Resource]string{shape.Catalogue: `"country":null`, shape.Rules: `"page_rules":[]`} {
		got := mustFetch(t, client, r)
		if !strings.Contains(string(got.Document.Body), null) || len(got.Warnings) == 0 || got.Warnings[0].Kind != guard.Dangling {
			t.Errorf("%s: %v\n%s", r, got.Warnings, got.Document.Body)
		}
	}
}

// TestARelationToAnItemThatDidNotComeIsNull has one of two galleries removed or unpublished in each CMS whose preset puts relations together.
func TestARelationToAnItemThatDidNotComeIsNull(t *testing.T) {
	for preset, c := range map[string]struct {
		artist      string
		gallery     string
		want, shown string
	}{
		"wordpress": {
			`[{"id":1,"title":{"rendered":"A"},"meta":{"gallery_artists":11}},{"id":2,"title":{"rendered":"B"},"meta":{"gallery_artists":12}}]`,
			`[{"id":11,"title":{"rendered":"Noord"},"content":{"rendered":"long"}}]`,
			`{"id":1,"name":"A","gallery_artists":{"id":11,"title":"Noord","art_kunstkoop":false,"kunst_aan_zet":false,"tag":[]},"visible":false,"tag":[]},{"id":2,"name":"B","gallery_artists":null,`,
			"gallery 12",
		},
		"wagtail": {
			`{"meta":{"total_count":2},"items":[{"id":1,"title":"A","gallery_artists":{"id":11}},{"id":2,"title":"B","gallery_artists":{"id":12,"title":"Zuid"}}]}`,
			`{"meta":{"total_count":1},"items":[{"id":11,"title":"Noord"}]}`, `"id":2,"name":"B","gallery_artists":null,`, "gallery 12",
		},
		"contentful": {
			`{"total":1,"items":[{"sys":{"id":"a"},"fields":{"name":"A","gallery_artists":{"sys":{"type":"Link","linkType":"Entry","id":"g12"}},"photo":{"sys":{"type":"Link","linkType":"Asset","id":"x"}},"other":{"sys":{"type":"Link","linkType":"Entry","id":"x"}}}}]}`,
			`{"total":1,"items":[{"sys":{"id":"g"},"fields":{"title":"Noord","address":[{"sys":{"type":"Link","linkType":"Entry","id":"a1"}}]}}]}`, `"name":"A","gallery_artists":null,`, "entry g12, entry a1",
		},
		"drupal": {
			`{"data":[{"type":"node--artist","id":"a","attributes":{"status":true,"title":"A"},"relationships":{"field_gallery_artists":{"data":{"type":"unknown","id":"missing"}},"field_photo":{"data":{"type":"file--file","id":"f"}}}}],"links":{}}`,
			`{"data":[{"type":"node--gallery","id":"g","attributes":{"status":true,"title":"Noord"},"relationships":{"field_address":{"data":[{"type":"node--address","id":"a1"}]}}}],"links":{}}`,
			`"name":"A","gallery_artists":null,`, "unknown missing, node--address a1",
		},
		"pocketbase": {
			`{"totalItems":1,"items":[{"collectionId":"c","id":"a","name":"A","gallery_artists":"g12"}]}`,
			`{"totalItems":1,"items":[{"collectionId":"c","id":"g","title":"Noord","address":["x"]}]}`, `"name":"A","gallery_artists":null,`, "gallery_artists g12, address x",
		},
		"sanity": {
			`{"result":[{"_id":"a","name":"A","gallery_artists":null}]}`, `{"result":[{"_id":"g","title":"Noord","address":[null]}]}`,
			`"name":"A","gallery_artists":null,`, "catalogue.gallery[0].address[0]",
		},
		"umbraco": {
			`{"total":1,"items":[{"id":"a","properties":{"name":"A","gallery_artists":null}}]}`,
			`{"total":1,"items":[{"id":"g","name":"Noord","properties":{"title":"Noord","address":{"items":[{"content":null}]}}}]}`, `"name":"A","gallery_artists":null,`, "content of a list",
		},
		"strapi5": {
			`{"data":[{"id":1,"documentId":"a","name":"A","gallery_artists":null}],"meta":{"pagination":{"total":1}}}`,
			`{"data":[{"id":1,"documentId":"g","title":"Noord","address":[null]}],"meta":{"pagination":{"total":1}}}`, `"name":"A","gallery_artists":null,`, "catalogue.gallery[0].address[0]",
		},
		"directus": {
			`{"data":[{"id":1,"name":"A","gallery_artists":null}],"meta":{"filter_count":1}}`,
			`{"data":[{"id":1,"title":"Noord","address":[null]}],"meta":{"filter_count":1}}`, `"name":"A","gallery_artists":null,`, "catalogue.gallery[0].address[0]",
		},
	} {
		t.Run(preset, func(t *testing.T) {
			empty := map[string]string{"wordpress": "[]", "contentful": `{"total":0,"items":[]}`, "drupal": `{"data":[],"links":{}}`, "sanity": `{"result":[]}`,
				"strapi5": `{"data":[],"meta":{"pagination":{"total":0}}}`, "directus": `{"data":[],"meta":{"filter_count":0}}`, "wagtail": `{"meta":{"total_count":0},"items":[]}`}[preset]
			if empty == "" {
				empty = `{"total":0,"totalItems":0,"items":[]}`
			}
			client := threePaths(t, preset, 0, c.artist, empty, c.gallery, strings.Count(c.artist, `"meta":{"gallery`), 0, 1)
			got := mustFetch(t, client, shape.Catalogue)
			if !strings.Contains(string(got.Document.Body), c.want) {
				t.Errorf("lacks %s:\n%s", c.want, got.Document.Body)
			}
			found := slices.IndexFunc(got.Warnings, func(f guard.Finding) bool { return f.Kind == guard.Dangling })
			if found < 0 || got.Warnings[found].Shown != c.shown {
				t.Errorf("%v, want %s", got.Warnings, c.shown)
			}
		})
	}
}

// TestItemsThatLinkBackStayWithinAFewTimesWhatCame has galleries that list their artists, in the
// CMSs that send each item once.
func TestItemsThatLinkBackStayWithinAFewTimesWhatCame(t *testing.T) {
	const artists = 300
	about := strings.Repeat("x", 10_000)
	answers := map[string]func(item func(i int) string) (artist, gallery string){
		"contentful": func(item func(int) string) (string, string) {
			link := func(id string) string { return `{"sys":{"type":"Link","linkType":"Entry","id":"` + id + `"}}` }
			var all, links []string
			for i := range artists {
				all = append(all, `{"sys":{"id":"a`+strconv.Itoa(i)+`"},"fields":{"name":"`+item(i)+`","gallery_artists":`+link("g")+`}}`)
				links = append(links, link("a"+strconv.Itoa(i)))
			}
			gallery := `{"sys":{"id":"g"},"fields":{"title":"Noord","about":"` + about + `","artists":[` + strings.Join(links, ",") + `],"self":` + link("g") + `}}`
			return `{"total":300,"items":[` + strings.Join(all, ",") + `],"includes":{"Entry":[` + gallery + `]}}`,
				`{"total":1,"items":[` + gallery + `],"includes":{"Entry":[` + strings.Join(all, ",") + `]}}`
		},
		"drupal": func(item func(int) string) (string, string) {
			var all, links []string
			for i := range artists {
				id := `"type":"node--artist","id":"a` + strconv.Itoa(i) + `"`
				all = append(all, `{`+id+`,"attributes":{"status":true,"title":"`+item(i)+`"},"relationships":{"field_gallery_artists":{"data":{"type":"node--gallery","id":"g"}}}}`)
				links = append(links, `{`+id+`}`)
			}
			gallery := `{"type":"node--gallery","id":"g","attributes":{"status":true,"title":"Noord","field_about":"` + about + `"},"relationships":{"field_address":{"data":[]},"field_artists":{"data":[` + strings.Join(links, ",") + `]}}}`
			return `{"data":[` + strings.Join(all, ",") + `],"included":[` + gallery + `],"links":{}}`,
				`{"data":[` + gallery + `],"included":[` + strings.Join(all, ",") + `],"links":{}}`
		},
	}
	for preset, answer := range answers {
		artist, gallery := answer(func(i int) string { return "Artist " + strconv.Itoa(i) })
		empty := map[string]string{"contentful": `{"total":0,"items":[]}`, "drupal": `{"data":[],"links":{}}`}[preset]
		got := mustFetch(t, threePaths(t, preset, 4*(len(artist)+len(gallery)), artist, empty, gallery), shape.Catalogue)
		if got.Document.Items != artists+1 || !strings.Contains(string(got.Document.Body), `"about":"`+about) || strings.Count(string(got.Document.Body), `"title":"Noord"`) != artists+1 {
			t.Errorf("%s: %d items, %d bytes", preset, got.Document.Items, len(got.Document.Body))
		}
	}
}

// The others answer with fewer records, or with none: recorded with rules for all of 20 artworks, for
// one, and for none.
func TestRecordsThatPocketBaseHidesAreALoss(t *testing.T) {
	recorded := filepath.Join("presets", "testdata", "pocketbase")
	fetch := func(artworks string) guard.Survey {
		dir := t.TempDir()
		testkit.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(recorded, "full"))))
		text, err := os.ReadFile(filepath.Join(recorded, artworks, "catalogue.artwork.json"))
		testkit.Must(t, errors.Join(err, os.WriteFile(filepath.Join(dir, "catalogue.artwork.json"), text, 0o600)))
		return mustFetch(t, newClient(t, "file:"+dir, func(o *options) { o.Preset = "pocketbase" }), shape.Catalogue).Document.Survey
	}
	policy := guard.Policy{Shrink: 0.5, Hold: time.Minute}
	for artworks, want := range map[string]string{"few": "1 artwork, 20 before", "none": "no artworks, 20 before"} {
		if got := policy.Judge(fetch("full"), fetch(artworks)).Held(); got.String() != want || got.Lasting() != (artworks == "none") {
			t.Errorf("%s: %v, want %s", artworks, got, want)
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
				_, err := client.Fetch(t.Context(), shape.Banners, cachedBanners)
				wantError(t, err, ErrAnswer, "were sent")
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
			Parts: []source.Part{{Name: "artist", Map: ".gallery_artists = null"}}, Map: "{artist, artwork: [], gallery: []}",
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
				_, err := client.Fetch(t.Context(), shape.Banners, cachedBanners)
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

// TestTheDefinitionsOfPresetsReachEveryDepth has those that recordings leave out.
func TestTheDefinitionsOfPresetsReachEveryDepth(t *testing.T) {
	for _, c := range []struct{ preset, program, input, want string }{
		{"strapi4", "unwrap", `{"id":1,"attributes":{"a":{"data":null},"b":{"data":[]},"c":{"data":{"id":2,"attributes":{"d":3}}}}}`, `{"a":null,"b":[],"c":{"d":3,"id":2},"id":1}`},
		{"strapi4", "unwrap", `{"id":1,"attributes":{"box":{"id":7,"text":"component"}}}`, `{"box":{"id":7,"text":"component"},"id":1}`},
		{"strapi4", "unwrap", `{"data":"text","x":[{"data":"text"}]}`, `{"data":"text","x":[{"data":"text"}]}`},
		{"directus", "far_ends", `{"p":[{"id":1,"rules_id":3,"pages_id":{"id":9}},{"id":2,"rules_id":{"id":3},"pages_id":{"id":8}},{"id":1,"x":1}]}`, `{"p":[{"id":9},{"id":8},{"id":1,"x":1}]}`},
		{"directus", "far_ends", `{"p":[{"id":1,"rules_id":3,"pages_id":null},{"id":1},{"rules_id":3,"sort":1,"pages_id":4}]}`, `{"p":[{"id":1},{"pages_id":4,"rules_id":3,"sort":1}]}`},
	} {
		program, err := mapping.Compile(options{Preset: c.preset}.complete(t).Shared.Def+"\n", "x", c.program)
		testkit.Must(t, err)
		in, err := mapping.Decode("in", []byte(c.input))
		testkit.Must(t, err)
		var out []byte
		err = program.Run(t.Context(), "in", in, 1, func(v any) (err error) {
			out, err = mapping.Append(nil, "", v, mapping.Limits{})
			return err
		})
		if err != nil || string(out) != c.want {
			t.Errorf("%s on %s: %s, %v; want %s", c.program, c.input, out, err, c.want)
		}
	}
}
