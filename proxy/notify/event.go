package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"vitrine/config/source"
	"vitrine/upstream/shape"
)

// Event is the body of a webhook ({json} in a preset): see docs/notify.md.
type Event struct {
	// ID is the same when the event is sent again.
	ID       string    `json:"id"`
	Event    string    `json:"event"`
	Resource string    `json:"resource"`
	Seq      int64     `json:"seq"` // of the document in Redis; grows, until Redis loses its data
	ETag     string    `json:"etag"`
	At       time.Time `json:"at"`
	Reason   string    `json:"reason"`
	// Changes are those since the state that was told before, by list. Absent if that is unknown.
	Changes map[string]Changed `json:"changes,omitempty"`
}

// Changed is how many items of a list changed.
type Changed struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Changed int `json:"changed"`
}

// digest is a short name for texts.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, " ")))
	return hex.EncodeToString(sum[:12])
}

// changed is what changed, in numbers.
func changed(changes shape.Changes) map[string]Changed {
	all := map[string]Changed{}
	for _, c := range changes {
		all[c.List] = Changed{Added: c.Added, Removed: c.Removed, Changed: c.Changed}
	}
	return all
}

// A call is the request that tells a target of an event.
type call struct {
	method, url string
	headers     map[string]string
	body        []byte
}

// callOf fills the placeholders in: escaped in a URL, and in a body that is JSON.
func callOf(t *source.Target, e Event) (call, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return call{}, err
	}
	values := map[string]string{
		"resource": e.Resource, "event": e.Event, "id": e.ID, "seq": strconv.FormatInt(e.Seq, 10), "etag": e.ETag,
		"zone": t.Zone, "service": t.Service, "token": t.Token, "secret": t.Secret,
	}
	fill := func(text string, escape func(string) string) string {
		var pairs []string
		for name, value := range values {
			pairs = append(pairs, "{"+name+"}", escape(value))
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
	plainly := func(s string) string { return s }
	c := call{method: t.Method, headers: map[string]string{"User-Agent": "vitrine"}}
	c.url = t.URL + fill(t.Path, url.QueryEscape)
	escape := plainly
	if strings.Contains(t.Headers["Content-Type"], "json") {
		escape = quoted
	}
	before, after, whole := strings.Cut(t.Body, "{json}")
	c.body = []byte(fill(before, escape))
	if whole {
		c.body = append(append(c.body, text...), fill(after, escape)...)
	}
	values["signature"] = ""
	if t.Secret != "" {
		mac := hmac.New(sha256.New, []byte(t.Secret))
		mac.Write(c.body)
		values["signature"] = hex.EncodeToString(mac.Sum(nil))
	}
	for name, value := range t.Headers {
		if values["signature"] != "" || !strings.Contains(value, "{signature}") {
			c.headers[name] = fill(value, plainly)
		}
	}
	return c, nil
}

// quoted is s within the quotation marks of JSON.
func quoted(s string) string {
	text, _ := json.Marshal(s) // a text
	return string(text[1 : len(text)-1])
}
