package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// Login gets the token for an Authorization header by OAuth's client credentials (RFC 6749, section
// 4.4). It requests one when the first is needed, when one expires, and when one is refused.
type Login struct {
	TokenURL, ClientID, ClientSecret string
	Scopes                           []string

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
			return "", &LoginError{Err: &StatusError{Code: refused.Response.StatusCode, Name: word(refused.ErrorCode)}}
		}
		if err != nil {
			return "", &LoginError{Err: bare(err)}
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

// LoginError is a token that could not be obtained.
type LoginError struct{ Err error }

func (e *LoginError) Error() string { return fmt.Sprintf("log in: %v", e.Err) }

func (e *LoginError) Unwrap() error { return e.Err }
