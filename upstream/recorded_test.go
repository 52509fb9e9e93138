package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestRecordedDocumentsAreFetchedWhole(t *testing.T) {
	for _, c := range []struct {
		resource shape.Resource
		name     string
		plain    string // the same document uncompressed
	}{
		{shape.Catalogue, "gvapp-get", "gvapp-get"},
		{shape.Catalogue, "gzip-get", "gzip-identity"},
		{shape.Catalogue, "gzip-identity", "gzip-identity"},
		{shape.Catalogue, "cond-get", "cond-get"},
		{shape.Catalogue, "edge-gvapp", "edge-gvapp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cms := upstreamtest.New(t)
			cms.Record(c.resource, upstreamtest.Recording(t, c.name))
			got := mustFetch(t, newClient(t, cms.URL, nil), c.resource)
			if !bytes.Equal(got.Document.Body, normalized(t, c.resource, c.plain)) {
				t.Error("not the recorded document")
			}
			if got.Status != http.StatusOK || got.Attempts != 1 || got.Duration <= 0 || got.NotModified {
				t.Errorf("status %d, %d attempts, %v, not modified %t", got.Status, got.Attempts, got.Duration, got.NotModified)
			}
		})
	}
}

// meanings is what each recorded error of each CMS is told to be.
var meanings = map[string]struct {
	says        string // after "status N"
	credentials bool   // that vitrine sends some
	again       bool   // it is asked again
	trips       bool   // it counts for the breaker
}{
	// A stopped database: a 500 of all but Strapi, which says 401 to those without a token.
	"directus/down-database-lost":       {says: " (INTERNAL_SERVER_ERROR)", again: true, trips: true},
	"directus/down-database-lost-2":     {says: " (INTERNAL_SERVER_ERROR)", again: true, trips: true},
	"directus/down-database-lost-token": {says: " (INTERNAL_SERVER_ERROR)", credentials: true, again: true, trips: true},
	"strapi4/down-database-lost":        {says: " (UnauthorizedError), which a Strapi answers when its database is down", again: true, trips: true},
	"strapi4/down-database-lost-2":      {says: " (UnauthorizedError), which a Strapi answers when its database is down", again: true, trips: true},
	"strapi4/down-database-lost-token":  {says: " (InternalServerError)", credentials: true, again: true, trips: true},
	"strapi5/down-database-lost":        {says: " (UnauthorizedError), which a Strapi answers when its database is down", again: true, trips: true},
	"strapi5/down-database-lost-2":      {says: " (UnauthorizedError), which a Strapi answers when its database is down", again: true, trips: true},
	"strapi5/down-database-lost-token":  {says: " (InternalServerError)", credentials: true, again: true, trips: true},
	"wordpress/down-database-lost":      {says: " (wp_die)", again: true, trips: true},
	"wordpress/down-database-lost-2":    {says: " (wp_die)", again: true, trips: true},

	// Credentials that are wrong or not enough. Without any, the same words of a Strapi are an
	// outage.
	"directus/error-401-bad-token":          {says: " (INVALID_CREDENTIALS), with the credentials that it was sent", credentials: true},
	"directus/error-401-token-expired":      {says: " (TOKEN_EXPIRED), with the credentials that it was sent", credentials: true},
	"directus/token-reader-artists":         {says: " (FORBIDDEN), with the credentials that it was sent", credentials: true},
	"strapi4/error-401-bad-token":           {says: " (UnauthorizedError), with the credentials that it was sent", credentials: true},
	"strapi5/error-401-bad-token":           {says: " (UnauthorizedError), with the credentials that it was sent", credentials: true},
	"wordpress/error-401-context-edit":      {says: " (rest_forbidden_context)"},
	"drf/token-malformed-401":               {says: ", with the credentials that it was sent", credentials: true},
	"directus/error-403-collection":         {says: " (FORBIDDEN)"},
	"directus/error-403-server-health":      {says: " (FORBIDDEN)"},
	"strapi4/error-403-collection":          {says: " (ForbiddenError)"},
	"strapi5/error-403-collection":          {says: " (ForbiddenError)"},
	"directus/error-429-rate-limit":         {says: " (REQUESTS_EXCEEDED)", trips: true}, // its Retry-After does not fit into the time
	"directus/error-403-bad-id":             {says: " (FORBIDDEN)"},                      // as is all that does not exist
	"directus/error-403-unknown-field":      {says: " (FORBIDDEN)"},
	"directus/error-403-unknown-item":       {says: " (FORBIDDEN)"},
	"wordpress/error-400-draft-status":      {says: " (rest_invalid_param)"},
	"directus/error-404-route":              {says: " (ROUTE_NOT_FOUND)"},
	"strapi4/error-404-item":                {says: " (NotFoundError)"},
	"strapi4/error-404-route":               {says: " (NotFoundError)"},
	"strapi5/error-404-route":               {says: " (NotFoundError)"},
	"wordpress/error-404-item":              {says: " (rest_post_invalid_id)"},
	"wordpress/error-404-route":             {says: " (rest_no_route)"},
	"strapi4/artists-pagination-mixed":      {says: " (ValidationError)"},
	"strapi5/artists-pagination-mixed":      {says: " (PaginationError)"},
	"strapi4/error-400-bad-filter":          {says: " (ValidationError)"},
	"strapi4/error-400-bad-sort":            {says: " (ValidationError)"},
	"strapi5/error-400-bad-filter":          {says: " (ValidationError)"},
	"strapi5/error-400-bad-operator":        {says: " (ValidationError)"},
	"strapi5/error-400-bad-populate":        {says: " (ValidationError)"},
	"strapi5/error-400-bad-sort":            {says: " (ValidationError)"},
	"directus/error-400-bad-filter":         {says: " (INVALID_QUERY)"},
	"directus/error-400-bad-filter-op":      {says: " (INVALID_QUERY)"},
	"directus/error-400-bad-limit":          {says: " (INVALID_QUERY)"},
	"directus/v2-limit-over-max":            {says: " (INVALID_QUERY)"},
	"wordpress/error-400-per-page":          {says: " (rest_invalid_param)"},
	"wordpress/orderby-meta-400":            {says: " (rest_invalid_param)"},
	"drf/paged-singlebanner-page9-404":      {},
	"strapi4/error-404-unknown-collection":  {says: " (NotFoundError)"},
	"strapi5/error-404-unknown-collection":  {says: " (NotFoundError)"},
	"strapi5/error-404-item-by-numeric-id":  {says: " (NotFoundError)"},
	"directus/error-403-unknown-collection": {says: " (FORBIDDEN)"},
	"directus/error-403-unknown-item-admin": {says: " (FORBIDDEN), with the credentials that it was sent", credentials: true},
	"wordpress/posts-page9-past-end-400":    {says: " (rest_post_invalid_page_number)"}, // the end of a walk, where one is under way
}

func TestEveryRecordedErrorIsToldForWhatItIs(t *testing.T) {
	for _, cms := range []string{"drf", "directus", "strapi4", "strapi5", "wordpress"} {
		for _, name := range upstreamtest.Recordings(t, cms) {
			raw := upstreamtest.Recording(t, name)
			resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
			testkit.Must(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode < 400 {
				continue // a document, or a part of one
			}
			want, ok := meanings[name]
			if !ok {
				t.Errorf("%s, status %d: nobody says what it means", name, resp.StatusCode)
				continue
			}
			t.Run(name, func(t *testing.T) {
				server := upstreamtest.New(t)
				server.Record(shape.Banners, raw)
				client := newClient(t, server.URL, func(o *options) {
					if want.credentials {
						o.Authorization = "Bearer lab"
					}
				})
				got, err := client.Fetch(t.Context(), shape.Banners, Held{})
				wantError(t, err, ErrAnswer, strings.Join([]string{"status ", resp.Status[:3], want.says}, ""))
				if again := got.Attempts > 1; again != want.again {
					t.Errorf("%d attempts, want again %t", got.Attempts, want.again)
				}
				if exchange.Judge(err).Trips != want.trips {
					t.Errorf("counts for the breaker: %t", !want.trips)
				}
				if got.Status != resp.StatusCode || len(got.Document.Body) != 0 {
					t.Errorf("status %d, %d bytes", got.Status, len(got.Document.Body))
				}
				// With status 200 it is no document either.
				_, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
				server.Set(shape.Banners, string(body))
				got, err = newClient(t, server.URL, nil).Fetch(t.Context(), shape.Banners, Held{})
				found, ok := errors.AsType[*exchange.FaultError](err)
				if !ok || found.Kind != exchange.FaultPage || got.Attempts != 1 {
					t.Errorf("with status 200: %v after %d attempts", err, got.Attempts)
				}
			})
		}
	}
}

// FuzzMapAndNormalize: whatever a CMS answers, and whichever preset and programs work on it, what
// comes out is a document that normalizing finds nothing to repair in but what it cannot, or an
// error that names a path in the resource; never a panic, never part of a document.
func FuzzMapAndNormalize(f *testing.F) {
	programs := []string{"", ".", "rename({\"naam\": \"name\"})", ".tag |= map(ascii_downcase)", "., .", "empty", "{id, title: (.name // .title)}", ".id |= tostring"}
	for i, name := range []string{
		"strapi5/galleries-populate-deep3", "strapi5/rules-populate-deep", "strapi4/galleries-populate-deep3", "strapi4/rules-populate-deep",
		"strapi5/artists-status-draft", "strapi4/banners-list", "directus/galleries-list-fields4", "directus/rules-list-fields3",
		"directus/banners-list", "wordpress/artists-list", "wordpress/galleries-list", "wordpress/banners-list",
		"drf/paged-singlebanner-page1", "drf/paged-gvapp-not-paginated", "gvapp-get", "edge-rules", "edge-singlebanner",
	} {
		_, body, _ := bytes.Cut(upstreamtest.Recording(f, name), []byte("\r\n\r\n"))
		f.Add(body, uint8(i), uint8(i), uint8(i))
	}
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `[{}]`, `{"data":null}`, `{"data":[{"id":1,"attributes":null}]}`, `{"data":[null,1,"x",[[]]]}`,
		`{"results":[{"id":1}],"next":1}`, `{"results":{},"next":null}`, `{"results":[],"next":null,"count":-1}`, `[{"id":1e400,"tag":{"data":[]}}]`,
		"[{\"id\":\"\xff\"}]", `{"data":[{"id":1,"documentId":"` + strings.Repeat("[", 99) + `"}]}`, strings.Repeat("[", 20000),
		`[{"id":1,"title":{"rendered":"&#0;&#x110000;<p"},"meta":{"meta":1}}]`, `{"meta":{"filter_count":"x"},"data":[]}`,
	} {
		f.Add([]byte(body), uint8(3), uint8(1), uint8(0))
	}
	f.Fuzz(func(t *testing.T, body []byte, preset, resource, program uint8) {
		r := shape.Resources()[int(resource)%3]
		names := []string{"drf", "strapi4", "strapi5", "directus", "wordpress", "custom"}
		o := options{Options: Options{URL: "http://cms", MaxBytes: 1 << 20, Resources: map[shape.Resource]source.Resource{}}, Preset: names[int(preset)%len(names)]}
		for _, one := range shape.Resources() {
			part := source.Part{Path: "x", Map: programs[int(program)%len(programs)]}
			if one == shape.Catalogue && program%2 == 1 {
				part.Name = []string{"artist", "artwork", "gallery"}[int(program/2)%3]
			}
			o.Resources[one] = source.Resource{Parts: []source.Part{part}}
			if part.Name != "" {
				o.Resources[one] = source.Resource{Parts: []source.Part{part}, Map: "{artist: [], artwork: [], gallery: []} + ."}
			}
		}
		o.Transport = jsonCMS(func(req *http.Request) (int, string) {
			if n, _ := strconv.Atoi(req.URL.Query().Get("page")); n > 3 {
				return http.StatusNotFound, string(body)
			}
			return http.StatusOK, string(body)
		})
		client, err := New(o.complete(t))
		testkit.Must(t, err)
		got, err := client.Fetch(t.Context(), r, Held{})
		if err == nil {
			checkDocument(t, r, got.Document.Body)
			return
		}
		if !strings.Contains(err.Error(), string(r)) || len(err.Error()) > 1000 {
			t.Errorf("an error without a path, or a long one: %v", err)
		}
	})
}

// checkDocument holds body to what is documented: JSON that normalizes to itself.
func checkDocument(t *testing.T, r shape.Resource, body []byte) {
	t.Helper()
	if !json.Valid(body) {
		t.Fatalf("not JSON: %q", body)
	}
	again, err := shape.Normalize(r, body)
	if err != nil || !bytes.Equal(again.Body, body) {
		t.Errorf("normalizes to something else (%v):\n%s\n%s", err, body, again.Body)
	}
}
