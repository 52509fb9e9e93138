package lease

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"
)

const (
	// What bounds the history of a resource: how many documents, in how many compressed bytes, and for
	// how long after they were replaced.
	mostVersions = 10
	mostHistory  = 10 << 20
	historyLasts = 7 * 24 * time.Hour
	// mostBody is the longest body that is decompressed, in bytes.
	mostBody = 256 << 20
	// DefaultPin is how long a restored document is pinned unless something else is asked for.
	DefaultPin = 2 * time.Hour
	// MostPin is how long it can be: pinnable in prelude.lua.
	MostPin = 30 * 24 * time.Hour
	// Latest is what is asked for to end the pin.
	Latest = "latest"
)

// The outcomes of [Hash.Remember] and [Hash.Restore], beside Lost.
const (
	Kept      Outcome = "kept"
	Wanted    Outcome = "wanted"    // call again with the body
	Restored  Outcome = "restored"  // or the pin has ended
	Withdrawn Outcome = "withdrawn" // there is no such version: the request was removed
)

// A Version is a document in the history.
type Version struct {
	// Name is the first 12 hexadecimal digits of the SHA-256 of the body.
	Name string
	// At is when it was last written as the present document, and Replaced when the next one was, by
	// Redis's clock; Replaced is zero for the newest.
	At, Replaced time.Time
	// Items is how many it has, Bytes the length of the body, and Changes what changed from the one
	// before, in words, or that it was restored.
	Items   int
	Bytes   int
	Changes string
}

// about is a version as it stands in the hash. At comes first: the scripts look for it.
type about struct {
	At      int64  `json:"at"`
	Items   int    `json:"items"`
	Bytes   int    `json:"bytes"`
	Changes string `json:"changes"`
}

// VersionOf is the name of a body in the history.
func VersionOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:6])
}

// Remember keeps the document of the fill that led to place in the history, unless Redis has come
// further. Without a body, it asks whether that is wanted, and is told the newest version.
func (h *Hash) Remember(ctx context.Context, c redis.Scripter, place Place, v Version, body []byte) (Outcome, string, error) {
	var packed []byte
	if len(body) > 0 {
		if packed = pack(body); len(packed) > mostHistory {
			return Kept, "", nil // not, but nothing more can be done
		}
	}
	text, err := json.Marshal(about{Items: v.Items, Bytes: v.Bytes, Changes: v.Changes})
	if err != nil {
		return "", "", fmt.Errorf("redis: remember: %w", err)
	}
	rest, _ := strings.CutPrefix(string(text), `{"at":0,`)
	r, err := h.run(ctx, c, remember, place.Set, place.Seq, v.Name, packed, rest, mostVersions, mostHistory, historyLasts.Milliseconds())
	return Outcome(r.text(0)), r.text(1), err
}

// History lists the versions, newest first.
func (h *Hash) History(ctx context.Context, c redis.Cmdable) (all []Version, err error) {
	names, err := c.HKeys(ctx, h.keys[2]).Result()
	if err != nil {
		return nil, fmt.Errorf("redis: history: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !IsVersion(name) })
	if len(names) == 0 {
		return nil, nil
	}
	texts, err := c.HMGet(ctx, h.keys[2], names...).Result()
	if err != nil {
		return nil, fmt.Errorf("redis: history: %w", err)
	}
	for i, name := range names {
		text, _ := texts[i].(string)
		var a about
		if json.Unmarshal([]byte(text), &a) == nil { // else it is not vitrine's
			all = append(all, Version{Name: name, At: time.UnixMilli(a.At), Items: a.Items, Bytes: a.Bytes, Changes: a.Changes})
		}
	}
	slices.SortFunc(all, func(a, b Version) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Name, b.Name)) })
	for i := 1; i < len(all); i++ {
		all[i].Replaced = all[i-1].At
	}
	return all, nil
}

// ErrNoVersion means that the history has no such version.
var ErrNoVersion = errors.New("no such version in the history")

// Version returns what is kept of a version, compressed; nothing if there is none.
func (h *Hash) Version(ctx context.Context, c redis.Cmdable, name string) ([]byte, error) {
	packed, err := c.HGet(ctx, h.keys[2], name+":body").Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("redis: history: %w", err)
	}
	return packed, nil
}

// Unpack returns the body of a version, or [ErrNoVersion].
func Unpack(packed []byte, name string) ([]byte, error) {
	if len(packed) == 0 {
		return nil, ErrNoVersion
	}
	decoder, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostBody)) // the options are right
	defer decoder.Close()
	body, err := decoder.DecodeAll(packed, nil)
	if err != nil || VersionOf(body) != name {
		return nil, fmt.Errorf("%w: what is kept of it is damaged", ErrNoVersion)
	}
	return body, nil
}

// IsVersion reports whether s can be the name of a version.
func IsVersion(s string) bool {
	return len(s) == 12 && strings.Trim(s, "0123456789abcdef") == ""
}

// A Restoration is the input of [Hash.Restore].
type Restoration struct {
	Request string // that must still stand in the field restore of the hash; empty: none need
	Version string // empty ends the pin
	ETag    string
	Body    []byte
	Source  string // empty: as before
	Pin     time.Duration
	By      string
	Set     string // names the data set, if there is none
}

// A Pinning is the result of [Hash.Restore]: until when the document is pinned, or was.
type Pinning struct {
	Outcome Outcome
	Until   time.Time
}

// Restore serves a version of the history, pinned, or ends the pin.
func (h *Hash) Restore(ctx context.Context, c redis.Scripter, q Restoration) (Pinning, error) {
	r, err := h.run(ctx, c, restore, q.Request, q.Version, q.ETag, q.Body, q.Source, q.Pin.Milliseconds(), q.By, q.Set)
	return Pinning{Outcome(r.text(0)), time.UnixMilli(r.int(1))}, err
}

// pack compresses a body. Its coder is made for each: it is large, and seldom needed.
func pack(body []byte) []byte {
	encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)) // the options are right
	return encoder.EncodeAll(body, nil)
}
