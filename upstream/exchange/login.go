package exchange

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// Login gets the token for an Authorization header by OAuth's client credentials (RFC 6749, section
// 4.4). It requests one when the first is needed, when one expires, and when one is refused.
type Login struct {
	TokenURL     string   `yaml:"token_url"`
	ClientID     string   `yaml:"client_id"`
	ClientSecret string   `yaml:"client_secret"`
	Scopes       []string `yaml:"scopes"`

	mu    sync.Mutex
	token *oauth2.Token
}

// authorization returns the header's value. client reaches the token server.
func (l *Login) authorization(ctx context.Context, client *http.Client) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.token.Valid() {
		config := clientcredentials.Config{ClientID: l.ClientID, ClientSecret: l.ClientSecret, TokenURL: l.TokenURL, Scopes: l.Scopes}
		token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil { // whose text quotes the response
			err = &StatusError{Code: refused.Response.StatusCode, Name: word(refused.ErrorCode)}
		}
		if err != nil {
			return "", &FaultError{Kind: FaultLogin, Text: "log in", Err: bare(err)}
		}
		l.token = token
	}
	return l.token.Type() + " " + l.token.AccessToken, nil
}

// refused drops the token that was sent, unless another request has renewed it.
func (l *Login) refused(sent string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != nil && l.token.Type()+" "+l.token.AccessToken == sent {
		l.token = nil
	}
}

// Check says what is missing; nil needs nothing.
func (l *Login) Check() error {
	if l == nil {
		return nil
	}
	u, err := url.Parse(l.TokenURL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return errors.New("want a token_url with http or https")
	case l.ClientID == "" || l.ClientSecret == "":
		return errors.New("want a client_id and a client_secret")
	}
	return nil
}
