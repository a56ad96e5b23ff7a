package task_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]task.Bytes{
		"0":                   0,
		"4096":                4096,
		"4096B":               4096,
		" 200MiB ":            200 * task.MiB,
		"200 MiB":             200 * task.MiB,
		"1.5 GB":              1_500_000_000,
		"1.5GiB":              3 * task.GiB / 2,
		"2G":                  2 * task.GiB,
		"3k":                  3 * task.KiB,
		"3K":                  3 * task.KiB,
		"7kB":                 7000,
		"7KB":                 7000,
		"8MB":                 8_000_000,
		"9TB":                 9_000_000_000_000,
		"1T":                  task.TiB,
		"0.1KiB":              102, // 102.4 rounded
		"9223372036854775807": math.MaxInt64,
		"8388607TiB":          8388607 * task.TiB,
	} {
		if got, err := task.ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestParseBytesRefuses(t *testing.T) {
	for _, text := range []string{
		"", "B", "MiB", "many", "-1", "-1MiB", "-0.5GiB", "1.5", "1.5B", "NaN", "Inf", "1e400",
		"9223372036854775808", "8388608TiB", "1e30GiB", "1,5GB", "1PiB", "12 34", "0x10",
	} {
		if got, err := task.ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", text, got)
		}
	}
}

func TestBytesString(t *testing.T) {
	for amount, want := range map[task.Bytes]string{
		0: "0B", 1023: "1023B", task.KiB: "1KiB", 1536: "1.5KiB", 3 * task.MiB: "3MiB",
		task.GiB + task.GiB/2: "1.5GiB", 2 * task.TiB: "2TiB", -2 * task.MiB: "-2MiB", -1: "-1B",
	} {
		if got := amount.String(); got != want {
			t.Errorf("%d bytes print as %q, want %q", int64(amount), got, want)
		}
	}
}

// What String prints, ParseBytes reads: exactly where the amount is a multiple
// of its unit, else to the one printed decimal.
func TestBytesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := task.Bytes(rapid.Int64Range(0, int64(4096*task.TiB)).Draw(t, "amount"))
		got, err := task.ParseBytes(amount.String())
		if err != nil {
			t.Fatal(err)
		}
		unit := task.Bytes(1)
		for _, u := range []task.Bytes{task.KiB, task.MiB, task.GiB, task.TiB} {
			if amount >= u {
				unit = u
			}
		}
		allowed := unit/20 + 1
		if amount%unit == 0 {
			allowed = 0
		}
		if off := max(got-amount, amount-got); off > allowed {
			t.Fatalf("%d printed as %s reads as %d", int64(amount), amount, int64(got))
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"", "1", "200MiB", "1.5 GB", "-1", "NaN", "1e400", "0x1p4", "9223372036854775808", "B", "8388608T"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := task.ParseBytes(text)
		if err != nil {
			return
		}
		if amount < 0 {
			t.Errorf("ParseBytes(%q) = %d", text, amount)
		}
		if _, err := task.ParseBytes(amount.String()); err != nil && amount < 1<<62 {
			t.Errorf("ParseBytes(%q) printed: %v", text, err)
		}
	})
}
