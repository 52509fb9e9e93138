package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

func TestAPurgeIsLoggedOnceAndWithItsAuthor(t *testing.T) {
	log, cfg := new(testkit.Buffer), settings(t)
	vitrine := startWith(t, cfg, log)
	vitrine.get(t, shape.Banners)
	slow := testkit.Dial(t, "tcp", vitrine.public.Addr().String())
	if _, err := io.WriteString(slow, "GET /cms/rules/ HTTP/1.1\r\nHost: x\r\n"); err != nil {
		t.Fatal(err)
	}
	reloaded := make(chan error, 1)
	go func() { reloaded <- vitrine.reload(cfg) }()
	testkit.Eventually(t, "another service", func() bool { return vitrine.present.Load() != vitrine.service })
	// Both services receive this purge: the one before waits for the slow client.
	environ := []string{"VITRINE_REDIS_URL=" + vitrine.local.URL()}
	if code := run(t.Context(), []string{"purge", "banners"}, program{environ: environ, stdout: io.Discard, stderr: t.Output()}); code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	host, err := os.Hostname()
	testkit.Must(t, err)
	if err := testkit.Retry(func() error {
		if text := log.String(); !strings.Contains(text, `msg="purge made by vitrine purge" resource=banners by=`) || !strings.Contains(text, "@"+host) {
			return errors.New(text)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), `msg="purge received" resource=banners`); n != 1 {
		t.Errorf("logged %d times: %s", n, log)
	}
	if vitrine.running.Err() != nil {
		t.Error("the service before has ended too early to tell")
	}
	if _, err := io.WriteString(slow, "\r\n"); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, reloaded); err != nil {
		t.Error(err)
	}
}
