package shape

import (
	"encoding/json"
	"log/slog"
	"slices"
)

// Kind names one sort of repair. It is short and fixed, fit for a metric.
type Kind string

// The repairs, in the order of [Repairs].
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
	// KindText is a text with bytes that are not UTF-8, or with half a surrogate pair: now U+FFFD.
	KindText Kind = "text"
)

var kinds = [...]Kind{
	KindBOM, KindDuplicate, KindUnknown, KindMissing, KindNull,
	KindVacant, KindInteger, KindTimestamp, KindZone, KindRelated, KindText,
}

// maxPaths is how many paths are kept of each kind, however many repairs a document needed.
const maxPaths = 5

// Repairs are what had to be repaired in one document, by kind. Kinds that did not occur are left
// out.
type Repairs []Repair

// A Repair counts the repairs of one kind.
type Repair struct {
	Kind  Kind     `json:"kind"`
	Count int      `json:"count"`
	Paths []string `json:"paths"` // of the first few, in the order of the document
}

// Total returns the number of repairs of all kinds.
func (r Repairs) Total() (n int) {
	for _, one := range r {
		n += one.Count
	}
	return n
}

// Of returns the repairs of kind k.
func (r Repairs) Of(k Kind) Repair {
	for _, one := range r {
		if one.Kind == k {
			return one
		}
	}
	return Repair{Kind: k}
}

// Plus returns r and what other counts, of the same kind.
func (r Repair) Plus(other Repair) Repair {
	paths := append(slices.Clone(r.Paths), other.Paths...)
	return Repair{Kind: r.Kind, Count: r.Count + other.Count, Paths: paths[:min(len(paths), maxPaths)]}
}

// MarshalJSON writes a list, which is never null.
func (r Repairs) MarshalJSON() ([]byte, error) { return json.Marshal(append([]Repair{}, r...)) }

// LogValue groups the repairs for slog: per kind its count and first paths.
func (r Repairs) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int("total", r.Total())}
	for _, one := range r {
		attrs = append(attrs, slog.Group(string(one.Kind), slog.Int("count", one.Count), slog.Any("paths", one.Paths)))
	}
	return slog.GroupValue(attrs...)
}

// tallies are the repairs of a document while it is read, in the order of kinds.
type tallies [len(kinds)]Repair

func (t *tallies) repairs() (occurred Repairs) {
	for i, one := range t {
		if one.Kind = kinds[i]; one.Count > 0 {
			occurred = append(occurred, one)
		}
	}
	return occurred
}

func (t *tallies) of(k Kind) *Repair { return &t[slices.Index(kinds[:], k)] }

// Add counts one; path is called only while its result is kept.
func (r *Repair) Add(path func() string) {
	r.Count++
	if len(r.Paths) < maxPaths {
		r.Paths = append(r.Paths, path())
	}
}
