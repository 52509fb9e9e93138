package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"vitrine/upstream/shape"
)

// The severities of a finding, the worst first.
const (
	Bad     = "bad"
	Warn    = "warn"
	Neutral = "neutral" // no fault
)

// Verdict is a judged snapshot.
type Verdict struct {
	// Sentence says whether visitors are affected, and until when copies last.
	Sentence string `json:"sentence"`
	Affected bool   `json:"affected"` // visitors get errors
	Ready    bool   `json:"ready"`    // each resource can be answered with 200, and the process is not stopping
	// CopiesUntil is when the first copy ends if the CMS fails until then; nil for no copy.
	CopiesUntil *time.Time `json:"copies_until"`
	CMS         Level      `json:"cms"`
	Redis       Level      `json:"redis"`
	Findings    []Finding  `json:"findings"` // the worst first
	// Outages are the documents of which several fetches in a row have failed, and why: of these
	// people are notified.
	Outages map[shape.Resource]string `json:"-"`
}

// A Finding is one thing that an operator should know. Its texts hold no number that changes by
// itself.
type Finding struct {
	Kind     string     `json:"kind"` // one of the table's
	Severity string     `json:"severity"`
	About    []string   `json:"about"` // the resources, or the target of notify; empty: the process
	What     string     `json:"what"`  // a sentence, as are the next two
	Affects  string     `json:"affects"`
	Do       string     `json:"do"`      // empty: nothing
	Command  string     `json:"command"` // that helps; may be empty
	Page     string     `json:"page"`    // of the documentation; may be empty
	Since    *time.Time `json:"since"`   // nil if unknown

	key string // under which its first sight is remembered
}

// table has what is the same for each finding of a kind: its severity, who is affected, what to do,
// and the section of docs/operations.md. {} stands for the names that the finding is about, UNTIL
// for the end of what it is about.
var table = map[string]struct{ severity, affects, do, command, section string }{
	"unservable":           {Bad, "Every visitor of the {}, who gets a 502, 503 or 504.", "Repair the CMS, or restore an earlier version: either ends the errors.", "vitrine check", "visitors-get-errors"},
	"certificate-expired":  {Bad, "Every visitor over TLS.", "Renew the files; vitrine reads them again by itself.", "", "the-certificate-expires"},
	"connections":          {Bad, "Further visitors, who get a 503.", "Raise limits.connections, or start more replicas.", "", "visitors-get-errors"},
	"cms-down":             {Bad, "Editors: their changes are not seen. Visitors get cached copies.", "Do not purge, and do not flush Redis. See why it fails.", "vitrine check", "the-cms-is-down"},
	"redis-unreachable":    {Bad, "Operators: purges have no effect until it is back. Visitors get cached copies.", "Repair Redis, then purge softly what changed.", "redis-cli PING", "redis-is-unreachable"},
	"fetch-fails":          {Warn, "Editors: their changes are not seen. Visitors get the cached copy.", "Do not purge. See why it fails.", "vitrine check", "the-cms-is-down"},
	"unauthorized":         {Warn, "Editors: their changes are not seen. Visitors get the cached copy.", "Give vitrine another token.", "vitrine check", "the-cms-refuses-the-token"},
	"rejected":             {Warn, "Editors: their changes are not seen. Visitors get the cached copy.", "Show the editors the path.", "vitrine check", "the-cms-sends-something-invalid"},
	"held-back":            {Warn, "Editors: visitors get the copy from before, UNTIL; then the CMS's document.", "Repair the CMS, or accept the document if the loss is meant.", "vitrine accept {}", "a-document-is-held-back"},
	"content-warning":      {Warn, "Visitors, who may see it: the document is served.", "Look at the document in the CMS.", "vitrine check", "a-document-has-content-warnings"},
	"foreign":              {Warn, "Editors, if it lasts: this replica serves what the replicas of another configuration fetch.", "After a deploy, wait until all replicas are replaced; else give all of them one configuration.", "", "two-configurations-share-a-redis"},
	"stale":                {Warn, "Editors: their changes are seen later.", "", "", "an-editors-change-is-not-seen"},
	"redis-refuses-writes": {Warn, "The CMS: each replica fetches on its own, and keeps its own copies.", "Give Redis memory, or repair its replication.", "redis-cli INFO replication", "redis-refuses-writes"},
	"redis-slow":           {Warn, "Visitors, who wait for it.", "Raise redis.purge_bound.", "", "visitors-wait"},
	"purges-not-received":  {Warn, "Visitors, who wait for Redis.", "See which right vitrine lacks.", "vitrine check", "purges-are-not-received"},
	"not-notified":         {Warn, "Visitors behind {}, which may serve old copies.", "Repair it; vitrine notifies it within a minute.", "vitrine notify {}", "a-cache-or-webhook-is-not-notified"},
	"certificate-ends":     {Warn, "No visitor until then.", "Renew the files; vitrine reads them again by itself.", "", "the-certificate-expires"},
	"reload-failed":        {Warn, "No visitor until a restart, which would fail.", "Correct the setting that the log names.", "vitrine config", "a-setting-has-no-effect"},
	"stopping":             {Warn, "No visitor: requests under way are answered.", "", "", ""},
	"restored":             {Neutral, "Editors: nothing is fetched until then.", "End it when the CMS is repaired.", "vitrine restore {} latest", "a-version-is-restored"},
	"missing":              {Neutral, "The next visitor, who waits for the CMS.", "", "", ""},
	"idle":                 {Neutral, "No visitor.", "", "", ""},
}

// say adds a finding, which is valid until the next one.
func (v *Verdict) say(kind, what string, about ...string) *Finding {
	row, named := table[kind], names(about)
	f := Finding{
		Kind: kind, Severity: row.severity, About: append([]string{}, about...), What: what, key: kind + " " + named,
		Affects: strings.ReplaceAll(row.affects, "{}", named), Do: row.do, Command: strings.ReplaceAll(row.command, "{}", named),
	}
	if row.section != "" {
		f.Page = "docs/operations.md#" + row.section
	}
	v.Findings = append(v.Findings, f)
	return &v.Findings[len(v.Findings)-1]
}

// has reports whether there is a finding of a kind.
func (v *Verdict) has(kind string) bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Kind == kind })
}

// Clock is a minute, with its day if that is not today, and its time zone.
func Clock(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	switch text := at.Format("15:04 MST"); day(at) {
	case day(now):
		return text
	case day(now.AddDate(0, 0, 1)):
		return "tomorrow " + text
	default:
		return at.Format("2 Jan ") + text
	}
}

// names is a list of names: "rules and banners".
func names(all []string) string { return english.WordSeries(all, "and") }

// Capital is a name at the beginning of a sentence.
func Capital(name any) string {
	text := fmt.Sprint(name)
	return strings.ToUpper(text[:1]) + text[1:]
}
