package exchange

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// TestARecordingHidesSecretsInEveryEncoding has values that a CMS repeats in the ways in which it
// writes texts and links.
func TestARecordingHidesSecretsInEveryEncoding(t *testing.T) {
	const secret = `a+b/c d&"é<1>=`
	quoted, _ := json.Marshal(secret)
	escaped := strings.Trim(string(quoted), `"`)
	for name, repeated := range map[string]string{
		"as it is":          secret,
		"a query":           url.QueryEscape(secret),
		"a path":            url.PathEscape(secret),
		"lower case":        strings.ToLower(url.QueryEscape(secret)),
		"JSON":              escaped,
		"JSON of PHP":       strings.ReplaceAll(escaped, "/", `\/`),
		"JSON of Python":    strings.ReplaceAll(escaped, "é", `\u00e9`),
		"a query in JSON":   strings.ReplaceAll(url.QueryEscape(secret), "%", `\u0025`),
		"HTML":              "a+b/c d&amp;&quot;é&lt;1&gt;=",
		"HTML by numbers":   "a&#43;b/c d&#38;&#34;&#xE9;&#60;1&#62;=",
		"base64":            base64.StdEncoding.EncodeToString([]byte("user:" + secret)),
		"base64, in a link": url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("user:" + secret))),
		"user and password": "user:" + secret,
	} {
		header := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+secret))
		got := string(Redact([]byte(`{"next":"?k=`+repeated+`&n=2"}`), []string{header, secret}))
		if want := `{"next":"?k=********&n=2"}`; got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := string(Redact([]byte(`{"id":123}`), []string{"123", ""})); got != `{"id":123}` {
		t.Errorf("a short value is everywhere: %s", got)
	}
}
