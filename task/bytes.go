package task

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is an amount of storage or memory in bytes.
type Bytes int64

// Binary multiples.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

var byteUnits = []struct {
	name string
	size Bytes
}{
	{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3},
	{"T", TiB}, {"G", GiB}, {"M", MiB}, {"K", KiB}, {"k", KiB}, {"B", 1},
}

// ParseBytes reads "200MiB", "1.5 GB", "4096" (bytes) or "2G" (binary). A
// fraction of a unit is rounded to whole bytes. Negative and overflowing
// amounts and fractions of a byte ("1.5B") are errors.
func ParseBytes(text string) (Bytes, error) {
	number, unit := strings.TrimSpace(text), Bytes(1)
	for _, u := range byteUnits {
		if rest, found := strings.CutSuffix(number, u.name); found {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		if whole < 0 || whole > math.MaxInt64/int64(unit) {
			return 0, fmt.Errorf("size %q is out of range: give 0 to %d bytes", text, int64(math.MaxInt64))
		}
		return Bytes(whole) * unit, nil
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("size %q is not a number with a unit: write for example 200MiB or 1GB", text)
	}
	if unit == 1 && value != math.Trunc(value) {
		return 0, fmt.Errorf("size %q has a fraction of a byte: give whole bytes or a larger unit", text)
	}
	scaled := value * float64(unit)
	if scaled < 0 || scaled >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is out of range: give 0 to %d bytes", text, int64(math.MaxInt64))
	}
	return Bytes(math.Round(scaled)), nil
}

// String prints the amount with the largest binary unit that keeps it >= 1,
// e.g. "1.5GiB"; an exact multiple prints without decimals.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if b >= u.size || b <= -u.size {
			if b%u.size == 0 {
				return strconv.FormatInt(int64(b/u.size), 10) + u.name
			}
			return strconv.FormatFloat(float64(b)/float64(u.size), 'f', 1, 64) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}
