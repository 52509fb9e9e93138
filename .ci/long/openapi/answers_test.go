// Package openapi holds the OpenAPI document against the answers of a running vitrine, and against
// every document that vitrine is known to serve.
package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/proxy/openapi"
	"vitrine/upstream/upstreamtest"
)

// load reads the document as its readers do, and checks it against OpenAPI 3.1. Its examples are
// checked by TestEverySchemaHasATypeAndEveryExampleValidates: kin-openapi has the rules of 3.0 for
// null.
func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.Document)
	testkit.Must(t, err)
	testkit.Must(t, doc.Validate(t.Context(), openapi3.IsOpenAPI31OrLater(), openapi3.DisableExamplesValidation()))
	return doc
}

// general are the fields that any answer of any server may have, and those that are for browsers
// alone.
var general = map[string]bool{
	"Date": true, "Content-Type": true, "Content-Length": true, "Content-Encoding": true, "Connection": true,
	"Access-Control-Allow-Origin": true, "Access-Control-Expose-Headers": true, "Timing-Allow-Origin": true,
	"X-Content-Type-Options": true, "Content-Security-Policy": true, "Cross-Origin-Resource-Policy": true,
}

// conform holds a real answer against the document: its status is described, with the fields that
// it has to have and a body in shape, and it has no field that is not described.
func conform(t *testing.T, doc *openapi3.T, req *http.Request, resp *http.Response) error {
	t.Helper()
	item := doc.Paths.Value(req.URL.Path)
	op := item.GetOperation(req.Method)
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if described := op.Responses.Status(resp.StatusCode); described != nil {
		for name := range resp.Header {
			known := general[name]
			for n := range described.Value.Headers {
				known = known || strings.EqualFold(n, name)
			}
			if !known {
				t.Errorf("%s %s: %d has %s, which is not described", req.Method, req.URL, resp.StatusCode, name)
			}
		}
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: req,
			Route:   &routers.Route{Spec: doc, Path: req.URL.Path, PathItem: item, Method: req.Method, Operation: op},
		},
		Status: resp.StatusCode, Header: resp.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: true},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil || req.Method == http.MethodHead {
		return err
	}
	where := "/paths/" + escaped(req.URL.Path) + "/" + strings.ToLower(req.Method) + "/responses/200"
	if shared := op.Responses.Status(resp.StatusCode).Ref; shared != "" {
		where = strings.TrimPrefix(shared, "#")
	}
	if op.Responses.Status(resp.StatusCode).Value.Content == nil {
		if len(body) > 0 {
			return errors.New("a body that is not described")
		}
		return nil
	}
	return validate(t, where+jsonContent, body)
}

// jsonContent is where the schema of an answer is, from the answer on.
const jsonContent = "/content/application~1json/schema"

// escaped is a name as a part of a JSON pointer (RFC 6901, section 3).
func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// schema compiles the schema at a JSON pointer into the document. It is done by a validator for
// JSON Schema 2020-12, which is what OpenAPI 3.1 has: that of kin-openapi falls back on the rules
// of OpenAPI 3.0 where a schema refers to another.
func schema(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	if known, ok := compiledSchemas.Load(pointer); ok {
		return known.(*jsonschema.Schema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.Document))
	testkit.Must(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	testkit.Must(t, c.AddResource("https://vitrine.example/openapi.json", doc))
	compiled, err := c.Compile("https://vitrine.example/openapi.json#" + pointer)
	testkit.Must(t, err)
	compiledSchemas.Store(pointer, compiled)
	return compiled
}

// compiledSchemas has *jsonschema.Schema by pointer: compiling the document takes longer than most
// answers.
var compiledSchemas sync.Map

// validate holds JSON against the schema at a pointer.
func validate(t *testing.T, pointer string, body []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema(t, pointer).Validate(v)
}

// Generators make a type of their own of a schema that has none, or none that a program could use.
func TestEverySchemaHasATypeAndEveryExampleValidates(t *testing.T) {
	var doc any
	testkit.Must(t, json.Unmarshal(openapi.Document, &doc))
	schemas, examples := 0, 0
	check := func(at, of string, example any) {
		examples++
		if err := schema(t, of).Validate(example); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	var walk func(at string, v any, isSchema bool)
	walk = func(at string, v any, isSchema bool) {
		if all, ok := v.([]any); ok {
			for i, item := range all {
				walk(at+"/"+strconv.Itoa(i), item, isSchema)
			}
		}
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		if isSchema {
			schemas++
			description, _ := m["description"].(string)
			undocumented := strings.HasPrefix(description, "No documented type") || strings.HasSuffix(at, "/exlude_pages/items")
			if m["type"] == nil && m["$ref"] == nil && !undocumented {
				t.Errorf("%s has no type", at)
			}
			all, _ := m["examples"].([]any)
			for _, example := range all {
				check(at, at, example)
			}
		} else if m["schema"] != nil {
			several, _ := m["examples"].(map[string]any)
			for name, example := range several {
				check(at+"/"+name, at+"/schema", example.(map[string]any)["value"])
			}
			if example := m["example"]; example != nil {
				check(at, at+"/schema", example)
			}
		}
		for name, child := range m {
			below := at + "/" + escaped(name)
			switch children, _ := child.(map[string]any); name {
			case "properties", "schemas":
				for property, s := range children {
					walk(below+"/"+escaped(property), s, true)
				}
			case "example", "examples":
			default:
				walk(below, child, name == "schema" || name == "items" || name == "anyOf")
			}
		}
	}
	walk("", doc, false)
	if schemas < 150 || examples < 20 {
		t.Errorf("only %d schemas and %d examples were found", schemas, examples)
	}
}

// TestRealAnswersAreDescribed asks for every status of every operation that a request, or a CMS,
// can bring about.
func TestRealAnswersAreDescribed(t *testing.T) {
	doc, cms := load(t), upstreamtest.New(t)
	vitrine := harness.Serve(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_UPSTREAM_RETRIES=0", "VITRINE_UPSTREAM_TIMEOUT=500ms", "VITRINE_CORS_ORIGINS=*")
	seen := map[string]bool{}
	ask := func(method, target string, want int, fields ...string) error {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+vitrine.Public+target, nil)
		testkit.Must(t, err)
		for i := 0; i < len(fields); i += 2 {
			req.Header.Set(fields[i], fields[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		testkit.Must(t, err)
		defer resp.Body.Close()
		if err := conform(t, doc, req, resp); err != nil {
			t.Errorf("%s %s: %v", method, target, err)
		}
		seen[req.URL.Path+" "+method+" "+resp.Status[:3]] = true
		if resp.StatusCode != want {
			return fmt.Errorf("%s %s: %d, want %d", method, target, resp.StatusCode, want)
		}
		return nil
	}
	must := func(err error) {
		t.Helper()
		testkit.Check(t, err)
	}
	for _, path := range harness.Routes {
		for _, method := range []string{"GET", "HEAD"} {
			must(ask(method, path, 200))
			must(ask(method, path+"?format=api&x=1", 200))
			must(ask(method, path, 304, "If-None-Match", "*"))
			must(ask(method, path, 412, "If-Match", `"x"`))
		}
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			must(ask(method, path+"?format=xml", 404))
			must(ask(method, path, 406, "Accept", "image/png"))
		}
		must(ask("OPTIONS", path, 200))
		must(ask("OPTIONS", path, 204, "Origin", "https://shop.example", "Access-Control-Request-Method", "GET"))
	}
	must(ask("GET", "/gvapp/singlebanner?ordering=-redirect_link_fr", 200))
	all := func(want int) {
		t.Helper()
		for _, path := range harness.Routes {
			for _, method := range []string{"GET", "HEAD"} {
				must(testkit.Retry(func() error { return ask(method, path, want) }))
			}
		}
	}
	release := func() {}
	for _, fault := range []struct {
		begin, end func()
		status     int
	}{
		{func() { cms.Fail(500) }, cms.Recover, 502},
		{cms.Down, cms.Up, 503},
		{func() { release = cms.Block() }, func() { release() }, 504},
	} {
		fault.begin()
		for r := range harness.Routes {
			vitrine.Purge(string(r))
		}
		all(fault.status)
		fault.end()
		all(200)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if status != "500" && !seen[path+" "+method+" "+status] { // that is a defect of vitrine
					t.Errorf("%s %s: %s is described, and was not seen", method, path, status)
				}
			}
		}
	}
}

// TestAGeneratedClientWorks generates a client from the document, and has it ask a vitrine with
// nothing but defaults.
func TestAGeneratedClientWorks(t *testing.T) {
	module, client := harness.Module(t, "proxy", "openapi", "clienttest"), t.TempDir()
	run := func(dir string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	run(module, "tool", "oapi-codegen", "-generate", "types,client", "-package", "client", "-o", filepath.Join(client, "client.go"), filepath.Join("..", "openapi.json"))
	for from, to := range map[string]string{"go.mod": "go.mod", "go.sum": "go.sum", "testdata/use_test.go": "use_test.go"} {
		text, err := os.ReadFile(filepath.Join(module, from))
		testkit.Must(t, errors.Join(err, os.WriteFile(filepath.Join(client, to), text, 0o600)))
	}
	t.Setenv("VITRINE_URL", "http://"+harness.Serve(t).Public)
	run(client, "test", "-count=1", ".")
}

func TestMain(m *testing.M) { harness.Main(m) }
