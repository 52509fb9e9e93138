package proxy

import (
	"testing"
	"time"
)

func TestTermsChangeFromOneRequestToTheNext(t *testing.T) {
	const here, there = "https://a.example", "https://b.example"
	r := newRig(t, Options{CORSOrigins: []string{here}})
	ask := "GET /gvapp/ HTTP/1.1\nHost: x\nOrigin: " + there
	if got := r.send(t, ask); got.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Fatalf("before: %v", got.Header)
	}
	before := r.send(t, ask).Header.Get("Cache-Control")
	if err := r.server.SetTerms(Terms{CORSOrigins: []string{there}, StaleIfError: time.Hour}); err != nil {
		t.Fatal(err)
	}
	got := r.send(t, ask)
	if got.Header.Get("Access-Control-Allow-Origin") != there || got.Header.Get("Cache-Control") == before {
		t.Errorf("after: %v", got.Header)
	}
	for _, wrong := range []Terms{{MaxAge: -1}, {CORSOrigins: []string{"nowhere"}}} {
		if err := r.server.SetTerms(wrong); err == nil {
			t.Errorf("%+v are taken", wrong)
		}
	}
	if got := r.send(t, ask); got.Header.Get("Access-Control-Allow-Origin") != there {
		t.Errorf("after terms that were refused: %v", got.Header)
	}
}
