package agent

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAliasesFollowTheCache(t *testing.T) {
	a := newAliases()
	one, two := task.Digest{1}, task.Digest{2}
	key := func(name task.LFN) task.FileKey { return task.KeyOf(name, task.Digest{}) }
	a.learn("w-a:x", one)
	a.learn("w-a:x", one)
	a.learn("w-b:y", one)
	a.learn("w-b:z", task.Digest{})
	if got := a.resolve(key("w-a:x")); got != task.KeyOf("", one) {
		t.Errorf("x resolves to %q", got)
	}
	if got := a.resolve(key("w-b:z")); got != key("w-b:z") {
		t.Errorf("a name without digest resolves to %q", got)
	}
	want := []task.FileKey{task.KeyOf("", one), key("w-a:x"), key("w-b:y")}
	if got := a.all(task.KeyOf("", one)); !slices.Equal(got, want) {
		t.Errorf("all keys are %q, want %q", got, want)
	}
	// A name can come to stand for other bytes: a new generation of its task.
	a.learn("w-a:x", two)
	a.forget([]task.FileKey{task.KeyOf("", one)})
	if got := a.resolve(key("w-a:x")); got != task.KeyOf("", two) {
		t.Errorf("after the older bytes are gone x resolves to %q", got)
	}
	if got := a.resolve(key("w-b:y")); got != key("w-b:y") {
		t.Errorf("a forgotten name resolves to %q", got)
	}
	if got := a.all(task.KeyOf("", one)); len(got) != 1 {
		t.Errorf("forgotten bytes still have names: %q", got)
	}
}

func TestFramesKeepTheirContent(t *testing.T) {
	content := []byte("content")
	for _, kind := range []byte{frameRole, frameDesk, frameHome} {
		framed := frame(kind, content)
		if framed[0] != kind || string(framed[1:]) != "content" {
			t.Errorf("frame %d is %q", kind, framed)
		}
	}
	if string(content) != "content" {
		t.Error("the content was changed")
	}
}

// An attempt's name on a storage element is its own for ever, and a plain one.
func TestStorageNames(t *testing.T) {
	attempt := task.AttemptID{Task: "w-abcdefghij/index[a,07]", Generation: 1, Lease: 12, Pilot: "p-aaaaaaaa", Counter: 3}
	name := task.StorageName(attempt, "w-abcdefghij:deep/er/part.07")
	if !strings.HasPrefix(name, "w-abcdefghij/index.a_07/") || !strings.HasSuffix(name, "/deep/er/part.07") || strings.ContainsAny(name, "[],:") {
		t.Errorf("the name is %s", name)
	}
	seen := map[string]bool{name: true}
	for _, change := range []func(*task.AttemptID){
		func(a *task.AttemptID) { a.Generation++ },
		func(a *task.AttemptID) { a.Lease++ },
		func(a *task.AttemptID) { a.Pilot = "p-bbbbbbbb" },
		func(a *task.AttemptID) { a.Counter++ },
		func(a *task.AttemptID) { a.Task = "w-abcdefghij/index[b,07]" },
		func(a *task.AttemptID) { a.Task = "w-bbbbbbbbbb/index[a,07]" },
	} {
		other := attempt
		change(&other)
		if name := task.StorageName(other, "w-abcdefghij:deep/er/part.07"); seen[name] {
			t.Errorf("%s and another attempt share %s", other, name)
		} else {
			seen[name] = true
		}
	}
}
