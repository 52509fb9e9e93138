package config

import (
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Share is a share of 1, written as a percentage.
type Share float64

// String writes the share as the settings do: 50%.
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'f', -1, 64) + "%" }

// MarshalText writes it so in YAML.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// parseShare reads 50%, 12.5% and 0.
func parseShare(text string) (Share, error) {
	number, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0) || !ok && n != 0 { // NaN is not
		return 0, errUnsaid
	}
	return Share(n / 100), nil
}

// Size is a number of bytes.
type Size int64

const units = "KMGTPE"

// String writes the size as the settings do: 32MiB, or bytes when uneven.
func (s Size) String() string {
	unit := 0
	for ; s >= 1<<10 && s%(1<<10) == 0 && unit < len(units); unit++ {
		s >>= 10
	}
	text := strconv.FormatInt(int64(s), 10)
	if unit > 0 {
		text += units[unit-1:unit] + "iB"
	}
	return text
}

// MarshalText writes it so in YAML.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// parseSize reads 1024, 64KiB, 64 kb and 1.5G.
func parseSize(text string) (Size, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 || strings.Contains(text, ",") { // which humanize skips: 1,5G is not 15G
		return 0, errUnsaid
	}
	return Size(n), nil
}
