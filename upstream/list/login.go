package list

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"vitrine/config/source"
	"vitrine/upstream/exchange"
	"vitrine/upstream/mapping"
)

// NewLogin makes the request that gets a token; nil makes none.
func NewLogin(l *source.Login) (*exchange.Login, error) {
	if l == nil {
		return nil, nil //nolint:nilnil // nobody logs in
	}
	login := &exchange.Login{Path: l.Path}
	switch {
	case (l.Path == "") == (l.URL == ""):
		return nil, errors.New("want either a path or a url")
	case len(l.Form) > 0 == (l.Body.Value != nil || l.Body.Text != ""):
		return nil, errors.New("want either a form or a body")
	}
	err := exchange.CheckPath(l.Path)
	if l.URL != "" {
		login.URL, err = exchange.ParseBase(l.URL)
	}
	if err != nil {
		return nil, err
	}
	program, err := mapping.Compile("", "upstream.shared.login.token", cmp.Or(l.Token, ".access_token"))
	if err != nil {
		return nil, err
	}
	login.Token = func(ctx context.Context, answer []byte) (string, error) {
		ctx, stop := mapping.Watch(ctx, len(answer))
		defer stop()
		v, err := mapping.Decode("answer", answer)
		var token string
		if err == nil {
			err = program.Run(ctx, "answer", v, 1, func(v any) error {
				token, _ = v.(string)
				return nil
			})
		}
		if err != nil { // whose text quotes the answer
			return "", errors.New("the answer has no token")
		}
		return token, nil
	}
	form := make(url.Values)
	for name, value := range l.Form {
		form.Set(name, value)
	}
	login.Body, login.Type = []byte(form.Encode()), "application/x-www-form-urlencoded"
	if len(form) == 0 {
		login.Body, login.Type = []byte(l.Body.Text), "text/plain; charset=utf-8"
	}
	if l.Body.Value != nil {
		login.Type = "application/json"
		login.Body, err = json.Marshal(l.Body.Value)
	}
	return login, err
}
