package upstream

import (
	"slices"
	"testing"

	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

func TestPagesWithStatus200AreToldForWhatTheyAre(t *testing.T) {
	const page, login = "<!doctype html><title>Maintenance</title>", `<html><form><input TYPE="password"></form>`
	for _, c := range []struct{ body, contentType, says string }{
		{page, "text/html", "want JSON, got an HTML page (text/html)"},
		{login, "text/html", "want JSON, got an HTML page with a login form (text/html)"},
		{page, "application/json", "want JSON, got an HTML page that says it is JSON"},
		{"\n " + login, "application/json", "want JSON, got an HTML page with a login form that says it is JSON"},
		{`{"detail":"Not found."}`, "application/json", "want a document, got an error with status 200"},
		{`{"error":"maintenance"}`, "application/json", "want a document, got an error with status 200 (maintenance)"},
		{`{"error":{"code":"E_DOWN"}}`, "application/json", "want a document, got an error with status 200 (E_DOWN)"},
		{`{"error":"We are\nback soon <b>"}`, "application/json", "want a document, got an error with status 200"},
		{`{"data":null,"errors":[{"message":"x"}]}`, "application/json", "want a document, got an error with status 200"},
	} {
		cms := upstreamtest.New(t)
		cms.Handle(shape.Catalogue, upstreamtest.JSON(c.body, "Content-Type", c.contentType))
		got, err := newClient(t, cms.URL, nil).Fetch(t.Context(), shape.Catalogue, Validators{})
		wantError(t, err, ErrAnswer, ": "+c.says)
		if v := exchange.Judge(err); !v.Trips || got.Attempts != 1 {
			t.Errorf("%s: %+v after %d attempts", c.body, v, got.Attempts)
		}
	}
}

func TestDocumentsThatSpeakOfErrorsAreNoErrors(t *testing.T) {
	for _, body := range []string{
		`{"artist":[],"artwork":[],"gallery":[],"error":null}`,
		`{"artist":[],"artwork":[],"gallery":[],"errors":[]}`,
		`{"artist":[],"artwork":[],"gallery":[],"detail":"of what is shown"}`,
		`{"artist":[],"artwork":[],"gallery":[],"code":"nl","message":"welcome"}`,
	} {
		cms := upstreamtest.New(t)
		cms.Set(shape.Catalogue, body)
		mustFetch(t, newClient(t, cms.URL, nil), shape.Catalogue)
	}
}

func TestHalfADocumentInAPerfectFrameIsAskedForAgain(t *testing.T) {
	cms := upstreamtest.New(t)
	cms.Next(upstreamtest.JSON(`[{"id":1,"title_en":"A ban`), upstreamtest.JSON(""))
	if got := mustFetch(t, newClient(t, cms.URL, nil), shape.Banners); got.Attempts != 3 {
		t.Errorf("%d attempts, want 3", got.Attempts)
	}
}

func TestListThatBecomesEmptyIsServedAndToldUntilItIsNot(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	first := mustFetch(t, client, shape.Catalogue)
	if len(first.Suspicions) != 0 {
		t.Errorf("a first document is suspicious: %v", first.Suspicions)
	}
	cms.Set(shape.Catalogue, `{"artist":[{"id":1,"gallery_artists":null}],"artwork":[],"gallery":[]}`)
	got := mustFetch(t, client, shape.Catalogue)
	want := []Suspicion{{Kind: Emptied, Path: "catalogue.artwork", Count: 8}, {Kind: Emptied, Path: "catalogue.gallery", Count: 4}}
	if !slices.Equal(got.Suspicions, want) || got.Document.Items != 1 {
		t.Errorf("%v with %d items, want %v", got.Suspicions, got.Document.Items, want)
	}
	if text := got.Suspicions[0].String(); text != "catalogue.artwork: empty now, had 8 items before" {
		t.Error(text)
	}
	if again := mustFetch(t, client, shape.Catalogue); !slices.Equal(again.Suspicions, want) {
		t.Errorf("then %v, want %v", again.Suspicions, want)
	}
	another := newClient(t, cms.URL, nil) // that has not seen it full
	another.Recall(shape.Catalogue, got.Document.Body, got.Suspicions)
	if again := mustFetch(t, another, shape.Catalogue); !slices.Equal(again.Suspicions, want) {
		t.Errorf("then %v by another, want %v", again.Suspicions, want)
	}
	cms.Set(shape.Catalogue, `{"artist":[],"artwork":[{"id":1}],"gallery":[]}`)
	want = []Suspicion{{Kind: Emptied, Path: "catalogue.artist", Count: 1}, {Kind: Emptied, Path: "catalogue.gallery", Count: 4}}
	if again := mustFetch(t, client, shape.Catalogue); !slices.Equal(again.Suspicions, want) {
		t.Errorf("then %v, want %v", again.Suspicions, want)
	}
}

func TestListThatAnotherReplicaSawFullIsMissedHereToo(t *testing.T) {
	cms := upstreamtest.New(t)
	client := newClient(t, cms.URL, nil)
	client.Recall(shape.Banners, []byte(`[{"id":1},{"id":2}]`), nil)
	client.Recall(shape.Rules, []byte(`not a document`), nil)
	cms.Set(shape.Banners, `[]`)
	cms.Set(shape.Rules, `[]`)
	if got := mustFetch(t, client, shape.Banners); !slices.Equal(got.Suspicions, []Suspicion{{Kind: Emptied, Path: "banners", Count: 2}}) {
		t.Errorf("%v", got.Suspicions)
	}
	if got := mustFetch(t, client, shape.Rules); len(got.Suspicions) != 0 {
		t.Errorf("%v", got.Suspicions)
	}
}
