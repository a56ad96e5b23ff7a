package task_test

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func TestValidateLFN(t *testing.T) {
	for _, name := range []string{
		"a", "part.00.fa", "run-1/part+2=x:y@z/_a", "...", "a..b", ".hidden", "=", strings.Repeat("a", task.MaxSegment),
		strings.Repeat(strings.Repeat("a", task.MaxSegment)+"/", 4)[:task.MaxLFN-1],
	} {
		if err := task.ValidateLFN(name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
	for name, reason := range map[string]string{
		"":                                      "empty",
		"-rf":                                   "dash",
		"/etc/passwd":                           "segment",
		"a//b":                                  "segment",
		"a/":                                    "segment",
		".":                                     "segment",
		"..":                                    "segment",
		"a/../b":                                "segment",
		"a/./b":                                 "segment",
		"a b":                                   "byte 1",
		"a\x00b":                                "byte 1",
		"a\nb":                                  "byte 1",
		"a\\b":                                  "byte 1",
		"ab\xff":                                "byte 2",
		"ä":                                     "byte 0",
		"a*":                                    "byte 1",
		strings.Repeat("a", task.MaxLFN+1):      "1025 bytes",
		"a/" + strings.Repeat("b", 256) + "/c":  "256 bytes",
		strings.Repeat("a/", task.MaxLFN) + "a": "2049 bytes",
	} {
		if err := task.ValidateLFN(name); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.40q: got %v, want an error with %q", name, err, reason)
		}
	}
}

func FuzzValidateLFN(f *testing.F) {
	for _, seed := range []string{"a", "a/b", "../a", "-a", "a/./b", "a\x00", "vo:a", "/", "..."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if task.ValidateLFN(name) != nil {
			return
		}
		if len(name) > task.MaxLFN || !filepath.IsLocal(name) || filepath.Clean(name) != name || name[0] == '-' {
			t.Errorf("ValidateLFN accepts %q", name)
		}
		for _, r := range name {
			if r <= ' ' || r > '~' || strings.ContainsRune("\\\"'`$*?<>|&;(){}[]!#%^~", r) {
				t.Errorf("ValidateLFN accepts %q in %q", r, name)
			}
		}
	})
}

// A name qualified by its workflow gives back what the workflow wrote, even
// when that looks qualified itself.
func TestQualifiedNamesKeepTheLocalName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workflow := task.NewWorkflowID(rapid.SliceOfN(rapid.Byte(), 7, 7).Draw(t, "random"))
		name := rapid.OneOf(
			rapid.StringMatching(`[a-z0-9._/+=:@]{1,20}`),
			rapid.SampledFrom([]string{"vo:a", "w-abcdefghij:a", ":", "vo:"}),
		).Draw(t, "name")
		if got := task.Qualify(workflow, name).Local(); got != name {
			t.Errorf("%q in %s is %q", name, workflow, got)
		}
	})
	for name, want := range map[task.LFN]string{
		task.SharedPrefix + "ref.fa": "ref.fa", "ref.fa": "ref.fa", "x:ref.fa": "x:ref.fa",
	} {
		if got := name.Local(); got != want {
			t.Errorf("%s is %q locally, want %q", name, got, want)
		}
	}
}
