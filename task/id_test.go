package task_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func TestNewIDsHaveTheirForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rapid.SliceOfN(rapid.Byte(), 7, 32).Draw(t, "random")
		workflow, pilot := task.NewWorkflowID(random), task.NewPilotID(random)
		if _, err := task.ParseWorkflowID(string(workflow)); err != nil {
			t.Error(err)
		}
		if _, err := task.ParsePilotID(string(pilot)); err != nil {
			t.Error(err)
		}
	})
}

// The ids carry all the random bits that their length holds.
func TestNewIDsDependOnEveryByte(t *testing.T) {
	for i := range 5 {
		other := make([]byte, 5)
		other[i] = 1
		if task.NewPilotID(other) == task.NewPilotID(make([]byte, 5)) {
			t.Errorf("byte %d does not change the pilot id", i)
		}
	}
	for i := range 6 {
		other := make([]byte, 7)
		other[i] = 1
		if task.NewWorkflowID(other) == task.NewWorkflowID(make([]byte, 7)) {
			t.Errorf("byte %d does not change the workflow id", i)
		}
	}
}

func TestParseID(t *testing.T) {
	for _, text := range []string{"w-abcdefghij/split", "w-a2b3c4d5e6/index[07]", "w-abcdefghij/merge.best[a,b]", "w-abcdefghij/_x"} {
		id, err := task.ParseID(text)
		if err != nil || string(id) != text {
			t.Errorf("ParseID(%q) = %q, %v", text, id, err)
		}
		if joined := task.NewID(id.Workflow(), id.Name()); joined != id {
			t.Errorf("%q taken apart and joined is %q", id, joined)
		}
	}
	for _, text := range []string{
		"", "/", "w-abcdefghij", "w-abcdefghij/", "w-abcdefghi1/x", "w-ABCDEFGHIJ/x", "w-abcdefghijk/x", "x/y",
		"w-abcdefghij/-rf", "w-abcdefghij/a/b", "w-abcdefghij/..", "w-abcdefghij/a b", "w-abcdefghij/a\x00",
		"w-abcdefghij/a[", "w-abcdefghij/a[]", "w-abcdefghij/a[0]b", "w-abcdefghij/a\n", "w-abcdefghij/" + strings.Repeat("a", 201),
	} {
		if id, err := task.ParseID(text); err == nil {
			t.Errorf("ParseID(%q) = %q, want an error", text, id)
		}
	}
}

func TestParseNames(t *testing.T) {
	for _, c := range []struct {
		parse func(string) error
		good  []string
		bad   []string
	}{
		{parse(task.ParseWorkflowID), []string{"w-abcdefghij", "w-2345672345"}, []string{"", "w-", "w-abcdefghi0", "p-abcdefghij", "w-abcdefghij\n"}},
		{parse(task.ParsePilotID), []string{"p-abcdefgh"}, []string{"", "p-abcdefg", "p-abcdefghi", "p-abcdefg1", "w-abcdefgh"}},
		{parse(task.ParseSite), []string{"siteA", "a", "se.example.org", "0-x_y", strings.Repeat("s", 63)}, []string{"", "-a", ".a", "_a", "a/b", "a b", "ä", "..", strings.Repeat("s", 64)}},
	} {
		for _, text := range c.good {
			if err := c.parse(text); err != nil {
				t.Error(err)
			}
		}
		for _, text := range c.bad {
			if err := c.parse(text); err == nil {
				t.Errorf("%q is accepted", text)
			}
		}
	}
}

func parse[T ~string](parser func(string) (T, error)) func(string) error {
	return func(text string) error {
		_, err := parser(text)
		return err
	}
}

func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"w-abcdefghij/index[07]", "w-abcdefghij/..", "w-abcdefghij/a/b", "", "w-abcdefghij/a\x00b"} {
		f.Add(seed)
	}
	safe := regexp.MustCompile(`^[A-Za-z0-9._+=:@,/\[\]-]+$`)
	f.Fuzz(func(t *testing.T, text string) {
		id, err := task.ParseID(text)
		if err != nil {
			return
		}
		if !safe.MatchString(text) || !task.ValidName(id.Name()) || task.NewID(id.Workflow(), id.Name()) != id {
			t.Errorf("ParseID accepts %q", text)
		}
		if name := id.Name(); name == "." || name == ".." || strings.HasPrefix(name, "-") {
			t.Errorf("ParseID accepts the task name %q", name)
		}
	})
}

func drawTerm(t *rapid.T, label string) task.Term {
	return task.Term{
		Epoch:  rapid.Uint64Range(0, 2).Draw(t, label+" epoch"),
		Ballot: rapid.Uint64Range(0, 2).Draw(t, label+" ballot"),
		Peer:   task.PeerID(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, label+" peer")),
	}
}

// Terms are totally ordered, by epoch before ballot before peer.
func TestTermsAreOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawTerm(t, "a"), drawTerm(t, "b"), drawTerm(t, "c")
		if a.Compare(b) != -b.Compare(a) {
			t.Errorf("%s and %s: not antisymmetric", a, b)
		}
		if (a.Compare(b) == 0) != (a == b) || a.Less(b) != (a.Compare(b) < 0) {
			t.Errorf("%s and %s: equal without being the same", a, b)
		}
		if a.Less(b) && b.Less(c) && !a.Less(c) {
			t.Errorf("%s, %s, %s: not transitive", a, b, c)
		}
		if a.Epoch < b.Epoch && !a.Less(b) || a.Epoch == b.Epoch && a.Ballot < b.Ballot && !a.Less(b) {
			t.Errorf("%s and %s: the epoch or ballot does not decide", a, b)
		}
	})
}

func TestTermText(t *testing.T) {
	term := task.Term{Epoch: 3, Ballot: 1, Peer: "12D3KooWabcdef"}
	if got := term.String(); got != "3.1/abcdef" {
		t.Errorf("term prints as %q", got)
	}
	if term.IsZero() || !(task.Term{}).IsZero() || (task.Term{}).String() != "0.0/" {
		t.Error("the zero term is not told apart")
	}
}

func drawAttempt(t *rapid.T, label string) task.AttemptID {
	return task.AttemptID{
		Task:       task.ID("w-abcdefghij/" + rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,3}`).Draw(t, label+" task")),
		Generation: rapid.Uint32Range(0, 11).Draw(t, label+" generation"),
		Lease:      task.LeaseID(rapid.Uint64Range(0, 11).Draw(t, label+" lease")),
		Pilot:      task.NewPilotID(rapid.SliceOfN(rapid.ByteRange(0, 1), 5, 5).Draw(t, label+" pilot")),
		Counter:    rapid.Uint64Range(0, 11).Draw(t, label+" counter"),
	}
}

// An attempt is read from its suffix, and from nothing else.
func TestAttemptOfASuffix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAttempt(t, "a")
		a.Pilot = task.NewPilotID([]byte(rapid.StringN(5, 5, -1).Draw(t, "random")))
		if got, ok := task.AttemptOf(a.Task, a.Suffix()); !ok || got != a {
			t.Errorf("%s is read as %+v", a, got)
		}
		other := rapid.StringMatching(`[gl]?[0-9+]*-?l?[0-9]*-?p-[a-z2-7]{7,9}-?[0-9]*-?`).Draw(t, "other")
		if got, ok := task.AttemptOf(a.Task, other); ok && got.Suffix() != other {
			t.Errorf("%q is read as %s", other, got)
		}
	})
}

// The text of an attempt id is its idempotency key wherever text is used:
// different attempts have different texts.
func TestAttemptTextsAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawAttempt(t, "a"), drawAttempt(t, "b")
		if (a.String() == b.String()) != (a == b) {
			t.Errorf("%+v and %+v print as %s and %s", a, b, a, b)
		}
	})
	a := task.AttemptID{Task: "w-abcdefghij/x", Generation: 1, Lease: 42, Pilot: "p-abcdefgh", Counter: 7}
	if a.String() != "w-abcdefghij/x/g1-l42-p-abcdefgh-7" || a.Suffix() != "g1-l42-p-abcdefgh-7" {
		t.Errorf("attempt prints as %s", a)
	}
	if a.IsZero() || !(task.AttemptID{}).IsZero() {
		t.Error("the zero attempt is not told apart")
	}
}

func TestDigestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var digest task.Digest
		copy(digest[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		text, err := digest.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var read task.Digest
		if err := read.UnmarshalText(text); err != nil || read != digest {
			t.Fatalf("%s reads as %s, %v", text, read, err)
		}
		if parsed, err := task.ParseDigest(digest.String()); err != nil || parsed != digest {
			t.Fatalf("%s parses as %s, %v", digest, parsed, err)
		}
	})
	text, err := task.Digest{}.MarshalText()
	if err != nil || len(text) != 0 {
		t.Errorf("the unknown digest has the text %q, %v", text, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("g", 64), strings.Repeat("0", 65)} {
		if digest, err := task.ParseDigest(bad); err == nil || !digest.IsZero() {
			t.Errorf("ParseDigest(%q) = %s, %v", bad, digest, err)
		}
	}
}

func TestFileKey(t *testing.T) {
	digest := task.Digest(bytes.Repeat([]byte{0xab}, 32))
	file := task.File{LFN: "w-abcdefghij:a", Digest: digest}
	if read, found := file.Key().Digest(); !found || read != digest {
		t.Errorf("the key %s has the digest %s, %v", file.Key(), read, found)
	}
	file.Digest = task.Digest{}
	if key := file.Key(); key != "lfn:w-abcdefghij:a" {
		t.Errorf("a file without digest has the key %s", key)
	}
	for _, key := range []task.FileKey{"lfn:w-abcdefghij:a", "b3:short", ""} {
		if digest, found := key.Digest(); found {
			t.Errorf("the key %q has the digest %s", key, digest)
		}
	}
}
