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
	// mostHistory bounds the history of a resource, in compressed bytes; retain bounds its versions.
	mostHistory = 10 << 20
	// mostDate is the last millisecond of the year 9999: later dates have no form in JSON.
	mostDate = 253402300799999
	// Latest is what is asked for to end a restore.
	Latest = "latest"
)

// The outcomes of [Hash.Remember] and [Hash.Restore], beside Lost.
const (
	Kept      Outcome = "kept"
	Wanted    Outcome = "wanted" // call again with the body
	Restored  Outcome = "restored"
	Withdrawn Outcome = "withdrawn" // there is no such version
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

// Wants asks whether the document of the fill that led to at is missing in the history; Redis may
// have come further. If so, it also returns the history with that version at its head.
func (h *Hash) Wants(ctx context.Context, c redis.Scripter, at Generation, name string) (wanted bool, all []Version, err error) {
	r, err := h.run(ctx, c, "remember", at.Set, at.Seq, name, "", "", mostHistory)
	if Outcome(r.text(0)) != Wanted {
		return false, nil, err
	}
	all = []Version{{Name: name, At: time.UnixMilli(r.int(1))}}
	for i := 2; i+1 < len(r); i += 2 {
		if r.text(i) != name {
			all = append(all, Version{Name: r.text(i), At: time.UnixMilli(r.int(i + 1))})
		}
	}
	return true, all, err
}

// Remember keeps that document in the history, of which the version at its head is v: others go in
// its favor, and the one before it if reordered says that it has the same items in another order.
func (h *Hash) Remember(ctx context.Context, c redis.Scripter, at Generation, v Version, all []Version, reordered bool, body []byte) (Outcome, error) {
	packed := pack(body)
	if len(packed) > mostHistory {
		return Kept, nil // not, but nothing more can be done
	}
	var dropped []any
	if reordered && len(all) > 1 {
		dropped, all = append(dropped, all[1].Name), slices.Delete(slices.Clone(all), 1, 2)
	}
	for i, keep := range retain(all) {
		if !keep {
			dropped = append(dropped, all[i].Name)
		}
	}
	text, err := json.Marshal(about{Items: v.Items, Bytes: v.Bytes, Changes: v.Changes})
	if err != nil {
		return "", fmt.Errorf("remember: %w", err)
	}
	rest, _ := strings.CutPrefix(string(text), `{"at":0,`)
	r, err := h.run(ctx, c, "remember", append([]any{at.Set, at.Seq, v.Name, packed, rest, mostHistory}, dropped...)...)
	return Outcome(r.text(0)), err
}

// History lists the versions, newest first.
func (h *Hash) History(ctx context.Context, c *redis.Client) (all []Version, err error) {
	names, err := c.HKeys(ctx, h.keys[2]).Result()
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !IsVersion(name) })
	if len(names) == 0 {
		return nil, nil
	}
	got := fieldsOf(ctx, c, h.keys[2], names)
	if err := got.Err(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	written := texts(got, names)
	for i, name := range names {
		var a about
		if json.Unmarshal([]byte(written[i]), &a) == nil && a.At > 0 && a.At <= mostDate { // else it is not vitrine's
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
func (h *Hash) Version(ctx context.Context, c *redis.Client, name string) ([]byte, error) {
	size, err := c.HStrLen(ctx, h.keys[2], name+":body").Result()
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if size > mostHistory {
		return nil, fmt.Errorf("%w: what is kept of it is too large", ErrNoVersion)
	}
	packed, err := c.HGet(ctx, h.keys[2], name+":body").Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("history: %w", err)
	}
	return packed, nil
}

// Unpack returns the body of a version, of at most so many bytes, or [ErrNoVersion].
func Unpack(packed []byte, name string, most int) ([]byte, error) {
	if len(packed) == 0 {
		return nil, ErrNoVersion
	}
	var header zstd.Header
	if err := header.Decode(packed); err != nil || !header.HasFCS || header.FrameContentSize-1 >= uint64(max(most, 0)) {
		return nil, fmt.Errorf("%w: what is kept of it is damaged, or larger than %d bytes", ErrNoVersion, most)
	}
	size := header.FrameContentSize
	decoder, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(size, zstd.MinWindowSize))) // the options are right
	defer decoder.Close()
	body, err := decoder.DecodeAll(packed, make([]byte, 0, size))
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
	At         Generation // that was read: nothing is written at another
	Version    string
	ETag       string
	Body       []byte
	For, Stale time.Duration
	By         string
	Set        string // names the data set, if there is none
}

// Restore serves a version of the history, and returns until when it is fresh.
func (h *Hash) Restore(ctx context.Context, c redis.Scripter, q Restoration) (Outcome, time.Time, error) {
	r, err := h.run(ctx, c, "restore", q.At.Set, q.At.Seq, q.Version, q.ETag, q.Body, q.For.Milliseconds(), q.Stale.Milliseconds(), q.By, q.Set, q.At.Holds == Document)
	return Outcome(r.text(0)), time.UnixMilli(r.int(1)), err
}

// pack compresses a body, and says its size. Its coder is made for each: it is large, and seldom needed.
func pack(body []byte) []byte {
	encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithSingleSegment(true)) // the options are right
	return encoder.EncodeAll(body, nil)
}
