package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/shape"
)

func TestCodeAndFromCodeAreInverse(t *testing.T) {
	for _, sentinel := range []error{ErrUnreachable, ErrTimeout, ErrAnswer} {
		code := Code(fmt.Errorf("at noon: %w", &exchange.Error{Op: "GET x", Kind: sentinel, Err: errors.New("y")}))
		back := FromCode(code)
		if code == "" || !errors.Is(back, sentinel) || Code(back) != code {
			t.Errorf("%v: code %q, back %v", sentinel, code, back)
		}
	}
	if got := Code(errors.New("other")); got != "" {
		t.Errorf("code of another error: %q", got)
	}
	if got := Code(nil); got != "" {
		t.Errorf("code of no error: %q", got)
	}
	if got := FromCode("overgrown"); !errors.Is(got, ErrUnreachable) {
		t.Errorf("an unknown code: %v", got)
	}
}

// TestNoErrorOrSuspicionHasASecretThatTheCMSRepeats has answers with an API key in a link, in the
// place of an id, where a program fails, and in an error, and a request that the error quotes. The
// key is one of the configuration, or a token that a login got.
func TestNoErrorOrSuspicionHasASecretThatTheCMSRepeats(t *testing.T) {
	const secret = "hunter2-0123456789-0123456789-0123456789-0123456789"
	for _, answer := range []struct {
		status             int
		body, items, style string
	}{
		{200, `{"results":[{%s}],"next":"?api_key=KEY"}`, ".results", ""},
		{200, `{"results":[{"id":"KEY"}]}`, ".results", ""},
		{200, `{"results":[{%s}]}`, ".results", source.PagingPage},
		{200, `{"results":"KEY"}`, ".results | map(.)", ""},
		{200, `{"results":"KEY"}`, ".results | error", ""},
		{403, `{"error":{"name":"KEY","message":"KEY is wrong"}}`, ".results", ""},
		{503, `{"error":{"name":"KEY","message":"KEY is wrong"}}`, ".results", ""},
		{403, `{"error":{"name":"KEY","message":"KEY is wrong"}}`, ".results", "login"},
		{200, `{"results":[{"id":"KEY"}]}`, ".results", "login"},
	} {
		var log bytes.Buffer
		client := newClient(t, "http://cms", func(o *options) {
			o.Preset, o.Shared.Secrets, o.Logger = "custom", []string{secret}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			if answer.style == "login" {
				answer.style, o.Shared.Secrets = "", nil
				o.Shared.Login = &source.Login{Path: "login", Form: map[string]string{"name": "me"}}
			}
			o.Transport = jsonCMS(func(req *http.Request) (int, string) {
				if req.Method == http.MethodPost {
					return http.StatusOK, `{"access_token":"` + secret + `"}`
				}
				return answer.status, strings.ReplaceAll(strings.Replace(answer.body, "%s", bannerOf(1, "a"), 1), "KEY", secret)
			})
			o.Resources = bannersAlone(source.Part{Path: "banners", Items: answer.items, Query: url.Values{"k": {secret}}, Paging: source.Paging{Style: answer.style, Param: "page"}})
		})
		got, err := client.Fetch(t.Context(), shape.Banners, Held{})
		explained, failed := client.Explain(t.Context(), shape.Banners)
		shown := fmt.Sprint(err, got.Suspicions, failed, log.String())
		for _, e := range explained {
			shown += e.Error
		}
		if status, ok := errors.AsType[*StatusError](err); ok {
			shown += status.Said
		}
		if refused, ok := errors.AsType[*shape.RefusedError](err); ok {
			shown += refused.Got
		}
		if err == nil && len(got.Suspicions) == 0 || strings.Contains(shown, "hunter") || !strings.Contains(shown, "****") {
			t.Errorf("%s: %s", answer.body, shown)
		}
	}
}
