package mapping

import (
	"bytes"
	"regexp"
)

// How CMSs write in JSON that an item is not published, with or without blanks: a member that ends
// in an anchor, and the whole of it. Inside of a text the quote before it would be escaped.
var draftMarks = []struct {
	anchor string
	mark   *regexp.Regexp
}{
	{`tatus"`, regexp.MustCompile(`(?i)(?:^|[^\\])"_?s?tatus"\s*:\s*"(?:draft|auto-draft|pending|private|future|unpublished|trash)"`)},
	{`tate"`, regexp.MustCompile(`(?i)(?:^|[^\\])"_?(?:workflow_?)?state"\s*:\s*"(?:draft|pending|unpublished|in_?review)"`)},
	{`raft"`, regexp.MustCompile(`(?i)(?:^|[^\\])"_?(?:is_?)?draft"\s*:\s*true`)},
	{`ublished"`, regexp.MustCompile(`(?i)(?:^|[^\\])"_?(?:is_?)?published"\s*:\s*false`)},
	{`publishedAt"`, regexp.MustCompile(`(?:^|[^\\])"publishedAt"\s*:\s*null`)},
}

// A date of publishing that is null says something only where other items have one.
var (
	undated = regexp.MustCompile(`(?:^|[^\\])"(?:published_at|_publishedAt|publish_?[dD]ate|publication_?[dD]ate)"\s*:\s*null`)
	dated   = regexp.MustCompile(`(?:^|[^\\])"(?:published_at|_publishedAt|publish_?[dD]ate|publication_?[dD]ate)"\s*:\s*"`)
)

// Drafts counts the items of an answer that are marked as not published.
func Drafts(body []byte) (n int) {
	for _, m := range draftMarks {
		n += count(body, m.anchor, m.mark)
	}
	for _, anchor := range []string{`ublished_at"`, `ublishedAt"`, `ate"`} {
		if unset := count(body, anchor, undated); unset > 0 && count(body, anchor, dated) > 0 {
			n += unset
		}
	}
	return n
}

// count counts the members that mark describes. The anchor finds them quickly, and no more are
// looked at than say enough.
func count(body []byte, anchor string, mark *regexp.Regexp) (n int) {
	const before, after, most = 24, 64, 10_000
	at := 0
	for range most {
		i := bytes.Index(body[at:], []byte(anchor))
		if i < 0 {
			break
		}
		at += i + len(anchor)
		window := body[max(0, at-len(anchor)-before):min(at+after, len(body))]
		for _, found := range mark.FindAllIndex(window, -1) {
			if begin, end := max(0, at-len(anchor)-before)+found[0], max(0, at-len(anchor)-before)+found[1]; begin < at && at <= end {
				n++
			}
		}
	}
	return n
}
