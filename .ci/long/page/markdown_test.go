package page

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"vitrine/ci/long/harness"
)

// frame is the width, the type and the cells of GitHub's pages, whose text is 1,012 px wide at
// most.
const frame = `<!DOCTYPE html><meta charset="utf-8"><title>page</title><link rel="icon" href="data:,"><style>
body { margin: 0; } main { width: 1000px; margin: 0; font: 16px/1.5 sans-serif; }
table { border-collapse: collapse; } td, th { border: 1px solid; padding: 6px 13px; }
code { font: 85% monospace; padding: .2em .4em; white-space: break-spaces; }
pre { padding: 16px; font-size: 85%; } pre code { font-size: 100%; padding: 0; white-space: pre; }
img { max-width: 100%; }
</style><main>`

// Every page, as rendered Markdown in a browser: nothing is wider than 1,000 px, every picture is
// there, no line of code has more than 100 columns, and no fence or bar of a table is left as text.
func TestEveryPageFitsItsWidthInABrowser(t *testing.T) {
	root := os.DirFS(harness.Root)
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM))
	files := http.FileServerFS(root)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if !strings.HasSuffix(name, ".md") {
			files.ServeHTTP(w, r)
			return
		}
		source, err := fs.ReadFile(root, name)
		var out bytes.Buffer
		if err == nil {
			// goldmark leaves HTML out, such as the picture of a phone and the marks of tables.
			err = markdown.Convert(source, &out)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(append([]byte(frame), out.Bytes()...)) // the browser may be gone
	}))
	t.Cleanup(server.Close)

	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md", "bench/README.md"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	if len(names) < 30 {
		t.Fatalf("only %d pages: %v", len(names), names)
	}
	b := openBrowser(t, server.URL)
	for _, name := range names {
		b.do(t, chromedp.Navigate(server.URL+"/"+name))
		for _, fault := range eval[[]string](t, b, `(() => {
			const faults = [], main = document.querySelector("main");
			if (!main.querySelector("h1")) faults.push("has no heading");
			for (const e of main.querySelectorAll("table, img, p, li"))
				if (e.scrollWidth > 1000 || e.getBoundingClientRect().right > 1001)
					faults.push("is wider than 1,000 px: " + e.tagName + " " + e.textContent.slice(0, 60));
			for (const e of main.querySelectorAll("pre"))
				for (const line of e.textContent.split("\n"))
					if ([...line.replaceAll("\t", "    ")].length > 100) faults.push("has a line of code of more than 100 columns: " + line.slice(0, 60));
			for (const e of main.querySelectorAll("img"))
				if (!e.complete || e.naturalWidth == 0 || !e.alt) faults.push("has a picture that does not show, or has no text: " + e.src);
			for (const e of main.querySelectorAll("p"))
				if (/^\||^`+"```"+`/.test(e.textContent)) faults.push("has a table or a fence that is text: " + e.textContent.slice(0, 60));
			return faults;
		})()`) {
			t.Errorf("%s %s", name, fault)
		}
	}
	b.clean(t)
}
