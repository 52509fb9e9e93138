package shape

import (
	"log/slog"
	"slices"
)

// Kind names one sort of repair. It is short and fixed, fit for a metric.
type Kind string

// The repairs, in the order in which [Repairs.Kinds] returns them.
const (
	// KindBOM is a UTF-8 byte order mark before the document, removed.
	KindBOM Kind = "bom"
	// KindDuplicate is a field that came twice: the last one was taken, as Python does.
	KindDuplicate Kind = "duplicate"
	// KindUnknown is a field that is not documented, dropped.
	KindUnknown Kind = "unknown"
	// KindMissing is a missing field: now "", [], false or null.
	KindMissing Kind = "missing"
	// KindNull is null where a text, timestamp, list or boolean belongs: now "", [] or false.
	KindNull Kind = "null"
	// KindVacant is null where an object or integer is documented. It has no empty value, so it
	// stays null, and is counted in each fetch.
	KindVacant Kind = "vacant"
	// KindInteger is an integer sent as text or as a number such as 1.0 or 1e2.
	KindInteger Kind = "integer"
	// KindTimestamp is an instant written in another form of ISO 8601.
	KindTimestamp Kind = "timestamp"
	// KindZone is a timestamp without an offset, read as UTC.
	KindZone Kind = "zone"
	// KindRelated is an object where its id belongs (the country of a city): now its id.
	KindRelated Kind = "related"
)

var kinds = [...]Kind{
	KindBOM, KindDuplicate, KindUnknown, KindMissing, KindNull,
	KindVacant, KindInteger, KindTimestamp, KindZone, KindRelated,
}

// maxPaths is how many paths are kept of each kind, however many repairs a document needed.
const maxPaths = 5

// Repairs counts what had to be repaired in one document. The zero value holds none. It is bounded:
// of each kind the count and the first few paths.
type Repairs struct {
	tallies [len(kinds)]tally
}

type tally struct {
	count int
	paths []string
}

// Total returns the number of repairs of all kinds.
func (r Repairs) Total() int {
	n := 0
	for _, t := range r.tallies {
		n += t.count
	}
	return n
}

// Kinds returns the kinds that occurred, always in the same order.
func (r Repairs) Kinds() []Kind {
	var occurred []Kind
	for i, t := range r.tallies {
		if t.count > 0 {
			occurred = append(occurred, kinds[i])
		}
	}
	return occurred
}

// Count returns how many repairs of kind k there were.
func (r Repairs) Count(k Kind) int {
	if i := slices.Index(kinds[:], k); i >= 0 {
		return r.tallies[i].count
	}
	return 0
}

// Paths returns the JSON paths of the first few repairs of kind k, in the order of the document.
func (r Repairs) Paths(k Kind) []string {
	if i := slices.Index(kinds[:], k); i >= 0 {
		return slices.Clone(r.tallies[i].paths)
	}
	return nil
}

// LogValue groups the repairs for slog: per kind its count and first paths.
func (r Repairs) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int("total", r.Total())}
	for i, t := range r.tallies {
		if t.count > 0 {
			attrs = append(attrs, slog.Group(string(kinds[i]), slog.Int("count", t.count), slog.Any("paths", t.paths)))
		}
	}
	return slog.GroupValue(attrs...)
}

// add counts one repair; path is called only while its result is kept.
func (r *Repairs) add(k Kind, path func() string) {
	t := &r.tallies[slices.Index(kinds[:], k)]
	t.count++
	if len(t.paths) < maxPaths {
		t.paths = append(t.paths, path())
	}
}
