// Package page looks at the operator's page in Chromium.
package page

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
	"vitrine/upstream/upstreamtest"
)

// browser is a tab of a real Chromium, and what it complained of and loaded.
type browser struct {
	context.Context
	mu         sync.Mutex
	complaints []string
	foreign    []string
	bytes      float64 // on the wire, of all that was loaded
}

// openBrowser starts one for the page at base, which is all that it may load from.
func openBrowser(t *testing.T, base string) *browser {
	t.Helper()
	path := harness.Need(t, "chromium", "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		cancel()
		_ = chromedp.WaitClosed(tab)
	})
	b := &browser{Context: tab}
	if err := chromedp.Listen(tab, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
				b.complaints = append(b.complaints, e.Entry.Text+" "+e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, e.ExceptionDetails.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, base+"/") {
				b.foreign = append(b.foreign, e.Request.URL)
			}
		case *network.EventLoadingFinished:
			b.bytes += e.EncodedDataLength
		}
	}); err != nil {
		t.Fatal(err)
	}
	call(t, b, cdplog.Enable, cdp.Empty{})
	call(t, b, runtime.Enable, cdp.Empty{})
	call(t, b, network.Enable, network.EnableParams{})
	return b
}

// call sends the browser a command.
func call[P, R any](t *testing.T, b *browser, command cdp.Command[P, R], params P) R {
	t.Helper()
	result, err := chromedp.Call(b, command, params)
	if err != nil {
		t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b, 30*time.Second)
	defer cancel()
	testkit.Must(t, chromedp.Do(ctx, actions...))
}

// eval returns what a script in the page gives.
func eval[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return v
}

// waits until a script in the page gives true.
func (b *browser) waits(t *testing.T, what, script string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !eval[bool](t, b, script) {
		select {
		case <-deadline:
			t.Fatalf("not within 20s: %s; the page says:\n%s", what, eval[string](t, b, `document.querySelector("main").innerText`))
		case <-tick.C:
		}
	}
}

func has(id, text string) string {
	return fmt.Sprintf(`document.getElementById(%q).textContent.includes(%q)`, id, text)
}

// clean fails if the page broke its policy, threw, or loaded from elsewhere.
func (b *browser) clean(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 || len(b.foreign) > 0 {
		t.Errorf("the browser complains of %q, and loaded %q from elsewhere", b.complaints, b.foreign)
	}
}

// visited is a vitrine that visitors keep asking, and its CMS.
func visited(t *testing.T) (*harness.Served, *upstreamtest.CMS, string) {
	t.Helper()
	cms := upstreamtest.New(t)
	vitrine := harness.Serve(t, "VITRINE_UPSTREAM_URL="+cms.URL, "VITRINE_TTL=1s", "VITRINE_UPSTREAM_RETRIES=0")
	ctx, cancel := context.WithCancel(t.Context())
	var visitors sync.WaitGroup
	visitors.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, path := range harness.Routes {
				if response, err := http.Get("http://" + vitrine.Public + path); err == nil {
					_ = response.Body.Close()
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() { cancel(); visitors.Wait() })
	return vitrine, cms, "http://" + vitrine.Operator
}

func TestThePageShowsAPurgeAnOutageAndARecoveryAsTheyHappen(t *testing.T) {
	vitrine, cms, base := visited(t)
	b := openBrowser(t, base)
	b.do(t, chromedp.Navigate(base+"/"))
	b.mu.Lock()
	loaded := b.bytes
	b.mu.Unlock()
	if loaded == 0 || loaded > 100_000 {
		t.Errorf("the page loads %.0f bytes, want less than 100,000", loaded)
	}
	b.waits(t, "all is well", has("verdict", "Everything is fresh"))

	// Nobody reloads from here on.
	b.do(t, chromedp.Evaluate[chromedp.Void](`window.same = true`))
	vitrine.Purge(string(shape.Banners))
	b.waits(t, "the purge", has("events", "Banners purged."))
	b.waits(t, "the copy fetched after the purge", `document.getElementById("card-banners").classList.contains("fresh")`)

	cms.Set(shape.Rules, `[{"id":"<script>alert(1)</script>"}]`)
	b.waits(t, "the refusal and its path", has("card-rules", `rules[0].id: want`))
	if eval[bool](t, b, `document.querySelector("main script") !== null`) {
		t.Error("what the CMS sent became a part of the page")
	}

	cms.Fail(503)
	b.waits(t, "the outage", has("verdict", "The CMS"))
	b.waits(t, "that nobody is affected", has("lead", "Visitors are not affected: no error in "))
	b.waits(t, "the outage among what happened", has("events", "The CMS cannot be fetched from."))
	b.waits(t, "a stale copy", `document.getElementById("card-catalogue").classList.contains("stale")`)

	cms.Recover()
	cms.Set(shape.Rules, `[]`)
	b.waits(t, "the recovery among what happened", has("events", "The CMS answers again."))
	b.waits(t, "what is held back", has("verdict", "the CMS's document is held back (no rule sets, 2 before)."))
	cms.Record(shape.Rules, upstreamtest.Recording(t, "rules-get"))
	b.waits(t, "all is well again", has("verdict", "Everything is fresh"))
	if !eval[bool](t, b, `window.same === true && document.querySelectorAll("figure svg[role=img] title").length === 4`) {
		t.Error("the page was loaded anew, or its charts are not named")
	}
	b.clean(t)
}

func TestThePageCanBePausedAndSaysWhenNobodyAnswers(t *testing.T) {
	vitrine, _, base := visited(t)
	b := openBrowser(t, base)
	b.do(t, chromedp.Navigate(base+"/"), chromedp.WaitVisible("#pause"), chromedp.Click("#pause"))
	before := eval[string](t, b, `document.getElementById("updated").textContent`)
	vitrine.Purge(string(shape.Banners))
	b.waits(t, "paused", `document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	if now := eval[string](t, b, `document.getElementById("updated").textContent`); now != before {
		t.Errorf("a paused page changes from %q to %q", before, now)
	}
	b.do(t, chromedp.Click("#pause"))
	b.waits(t, "the purge", has("events", "Banners purged."))
	b.clean(t)
	vitrine.Stop()
	b.waits(t, "that nobody answers", `!document.getElementById("lost").hidden`)
}

func TestTheDocumentServedNowIsReadFromThePage(t *testing.T) {
	vitrine := harness.Serve(t)
	b := openBrowser(t, "http://"+vitrine.Operator)
	b.do(t, chromedp.Navigate("http://"+vitrine.Operator+"/"), chromedp.Click("#read-banners"), chromedp.WaitVisible("pre"))
	if !eval[bool](t, b, `"button_text_nl" in JSON.parse(document.querySelector("pre").textContent)[0]`) {
		t.Error("the banners are not shown whole")
	}
	b.clean(t)
}

// contrasts are the texts of the page that are too faint (WCAG 2.2, 1.4.3).
const contrasts = `(() => {
  const canvas = document.createElement("canvas"); canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", {willReadFrequently: true});
  const mix = (colors) => { pen.clearRect(0, 0, 1, 1); for (const c of colors) { pen.fillStyle = c; pen.fillRect(0, 0, 1, 1); } return [...pen.getImageData(0, 0, 1, 1).data]; };
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || !e.checkVisibility() || e.closest("title, desc, .hidden, .skip")) continue;
    const grounds = [];
    for (let p = e; p; p = p.parentElement) grounds.unshift(getComputedStyle(p).backgroundColor);
    const style = getComputedStyle(e), ink = e.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(mix(["white", ...grounds])), light(mix(["white", ...grounds, ink]))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05), large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) faint.push(text + " " + ratio.toFixed(2));
  }
  return faint;
})()`

func TestThePageCanBeUsedByEverybody(t *testing.T) {
	vitrine := harness.Serve(t)
	base := "http://" + vitrine.Operator
	b := openBrowser(t, base)
	for _, scheme := range []string{"light", "dark"} {
		call(t, b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 360, Height: 740, DeviceScaleFactor: 1})
		call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		b.do(t, chromedp.Navigate(base+"/"))
		if faint := eval[[]string](t, b, contrasts); len(faint) > 0 {
			t.Errorf("in the %s: too faint: %q", scheme, faint)
		}
		if wide := eval[int](t, b, `document.documentElement.scrollWidth`); wide > 360 {
			t.Errorf("%d wide on a phone of 360", wide)
		}
	}
	checkOutline(t, b)
	b.do(t, chromedp.KeyEvent(kb.Tab))
	if !eval[bool](t, b, `document.activeElement.className === "skip" && getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
		t.Error("the first key does not lead to the link to the content, visibly")
	}
	b.clean(t)
}

// checkOutline holds what a screen reader is told: landmarks, one heading of each step, and a name
// for everything that can be used or seen.
func checkOutline(t *testing.T, b *browser) {
	t.Helper()
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	roles := map[string]int{}
	for _, n := range call(t, b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored {
			continue
		}
		role, name := text(n.Role), text(n.Name)
		roles[role]++
		switch role {
		case "link", "button", "searchbox", "image", "img", "navigation", "region", "table", "heading", "columnheader":
			if name == "" {
				t.Errorf("a %s has no name", role)
			}
		}
	}
	for _, role := range []string{"banner", "main", "contentinfo", "heading"} {
		if roles[role] == 0 {
			t.Errorf("no %s", role)
		}
	}
	if !eval[bool](t, b, `(() => {
		const levels = [...document.querySelectorAll("h1, h2, h3")].map(h => +h.tagName[1]);
		const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
		const named = [...document.querySelectorAll("[aria-labelledby], [aria-describedby]")].every(e =>
			(e.getAttribute("aria-labelledby") ?? e.getAttribute("aria-describedby")).split(" ").every(id => document.getElementById(id)));
		return levels[0] === 1 && levels.filter(l => l === 1).length === 1 && levels.every((l, i) => i === 0 || l <= levels[i-1] + 1)
			&& new Set(ids).size === ids.length && named && document.documentElement.lang === "en" && document.title !== "";
	})()`) {
		t.Error("headings skip a step, an id is there twice, or a label leads nowhere")
	}
}

func TestMain(m *testing.M) { harness.Main(m) }
