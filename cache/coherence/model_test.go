package coherence

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModelCitesTheCode holds docs/model against the code: what a step of the model stands for is
// there, under that name.
func TestModelCitesTheCode(t *testing.T) {
	known := map[string]bool{}
	for _, dir := range []string{"..", "../lease", "../watch"} {
		for name := range declared(t, dir) {
			known[name] = true
		}
	}
	must(t, filepath.WalkDir("../lease", func(file string, _ fs.DirEntry, err error) error {
		known[path.Base(filepath.ToSlash(file))] = true // the scripts
		return err
	}))
	list := regexp.MustCompile(`\[([a-zA-Z. ]+\.[a-zA-Z. ]+)\]`)
	for model, least := range map[string]int{"coherence.pml": 20, "lost.pml": 15} {
		text, err := os.ReadFile("../../docs/model/" + model)
		must(t, err)
		cited := map[string]bool{}
		for _, found := range list.FindAllStringSubmatch(string(text), -1) {
			for name := range strings.FieldsSeq(found[1]) {
				cited[name] = true
				if !known[name] {
					t.Errorf("%s cites %s, which is not there", model, name)
				}
			}
		}
		if len(cited) < least {
			t.Errorf("%s cites %d functions only", model, len(cited))
		}
	}
}

// declared are the functions, methods and types of a package, as package.Type.Method.
func declared(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				owner := ""
				if d.Recv != nil {
					owner = receiver(d.Recv.List[0].Type) + "."
				}
				names[file.Name.Name+"."+owner+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						names[file.Name.Name+"."+s.Name.Name] = true
					}
				}
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestModelKnowsTheConstants compares the constants that docs/model/README.md argues from with the
// code's.
func TestModelKnowsTheConstants(t *testing.T) {
	readme, err := os.ReadFile("../../docs/model/README.md")
	must(t, err)
	for row, in := range map[string]struct{ file, text string }{
		"| trust | 9/10 of the purge bound |":     {"../watch/open.go", "trust: o.Bound * 9 / 10"},
		"| heartbeat | 3/10 of the purge bound |": {"../watch/open.go", "heartbeat: o.Bound * 3 / 10"},
		"| `leaseMargin` | 1s |":                  {"../reader.go", "const leaseMargin = time.Second"},
		"| `Restored` | −1 |":                     {"../lease/lease.go", "const Restored = -1"},
		"| `Restored` | −1 | no other writer":     {"../lease/lua/release.lua", "'fresh_until', '-1'"},
	} {
		code, err := os.ReadFile(in.file)
		must(t, err)
		if !strings.Contains(string(readme), row) || !strings.Contains(string(code), in.text) {
			t.Errorf("README.md has %q, and %s %q: one of the two is gone", row, in.file, in.text)
		}
	}
}
