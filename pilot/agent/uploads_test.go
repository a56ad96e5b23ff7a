package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// storingNode has a cache and may write to every folder.
func storingNode(t *testing.T) *workerNode {
	t.Helper()
	cache, err := disk.Open(disk.Config{Dir: t.TempDir(), Capacity: task.MiB})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	client := storage.NewClient(storage.Options{FileRoots: []string{"/"}})
	t.Cleanup(func() { client.Close() })
	return &workerNode{cache: cache, storage: client}
}

// A cached output whose bytes have changed behind the cache's back, its size
// and time have not, must not become the copy that stays.
func TestDamagedOutputsAreNotUploaded(t *testing.T) {
	n := storingNode(t)
	folder, element, cache := t.TempDir(), t.TempDir(), n.cache
	put := func(name string, damage bool) error {
		made := filepath.Join(folder, name)
		if err := os.WriteFile(made, []byte("bytes of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		entry, err := cache.Adopt(t.Context(), filepath.Dir(made), filepath.Base(made), false, task.OutputID{LFN: "w-a:x"})
		if err != nil {
			t.Fatal(err)
		}
		if damage {
			flipOneByte(t, cache, entry.Key)
		}
		_, err = n.Put(t.Context(), "file://"+element, name, entry.Key, false)
		if _, cached := cache.Lookup(entry.Key); cached == damage {
			t.Errorf("%s: in the cache afterwards: %v", name, cached)
		}
		return err
	}
	if err := put("sound", false); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(element, "sound")); err != nil || !bytes.Equal(got, []byte("bytes of sound")) {
		t.Errorf("stored %q, %v", got, err)
	}
	var corrupt *disk.CorruptError
	if err := put("damaged", true); !errors.As(err, &corrupt) {
		t.Errorf("got %v, want that the content is damaged", err)
	}
	if _, err := os.Stat(filepath.Join(element, "damaged")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was stored: %v", err)
	}
}

// What an earlier upload has put there is not written again, unless it is not
// all there or damaged; a first upload does not ask.
func TestUploadsThatArePerhapsThere(t *testing.T) {
	n := storingNode(t)
	folder, element, cache := t.TempDir(), t.TempDir(), n.cache
	made := filepath.Join(folder, "x")
	if err := os.WriteFile(made, []byte("made"), 0o600); err != nil {
		t.Fatal(err)
	}
	entry, err := cache.Adopt(t.Context(), filepath.Dir(made), filepath.Base(made), false, task.OutputID{LFN: "w-a:x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range []struct {
		there        string
		written      bool
		perhapsThere bool
	}{
		{"made", false, true},
		{"cut", true, true},
		{"eadm", true, true},
		{"made", true, false},
	} {
		stored, long := filepath.Join(element, "x"), time.Unix(1, 0)
		if err := errors.Join(os.WriteFile(stored, []byte(example.there), 0o600), os.Chtimes(stored, long, long)); err != nil {
			t.Fatal(err)
		}
		url, err := n.Put(t.Context(), "file://"+element, "x", entry.Key, example.perhapsThere)
		if err != nil || url != "file://"+element+"/x" {
			t.Errorf("%+v: %q, %v", example, url, err)
		}
		if got, err := os.ReadFile(stored); err != nil || string(got) != "made" {
			t.Errorf("%+v: stored is %q, %v", example, got, err)
		}
		if info, err := os.Stat(stored); err != nil || info.ModTime().Equal(long) == example.written {
			t.Errorf("%+v: %v, %v", example, info, err)
		}
	}
	at := func(run task.WorkflowID, by task.PilotID) message.Output {
		return message.Output{
			Attempt:  task.AttemptID{Task: task.NewID("w-aaaaaaaaaa", "t"), Pilot: by},
			Produced: task.Produced{LFN: task.Qualify(run, "x")},
		}
	}
	for _, example := range []struct {
		item upload
		want bool
	}{
		{upload{output: at("w-aaaaaaaaaa", "p-self")}, false},
		{upload{output: at("w-aaaaaaaaaa", "p-self"), tries: 1}, true},
		{upload{output: at("w-bbbbbbbbbb", "p-self")}, true},
		{upload{output: at("w-aaaaaaaaaa", "p-other")}, true},
	} {
		if got := example.item.perhapsThere("p-self"); got != example.want {
			t.Errorf("%+v is perhaps there: %v", example.item, got)
		}
	}
}

// What is on a storage element is found if it has the right content. A folder that
// is empty or missing, as where it is not mounted, says nothing.
func TestOutputsAreFoundOnStorage(t *testing.T) {
	n := storingNode(t)
	element, digest := t.TempDir(), task.Digest(blake3.Sum256([]byte("made")))
	find := func(element string) (string, error) {
		return n.Find(t.Context(), "file://"+element, "w/t/a/x", 4, digest)
	}
	for _, away := range []string{element, filepath.Join(element, "missing")} {
		if _, err := find(away); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v, want that it does not answer", away, err)
		}
	}
	stored := filepath.Join(element, "w/t/a/x")
	if err := os.MkdirAll(filepath.Dir(stored), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := find(element); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	for content, sound := range map[string]bool{"made": true, "eadm": false, "mad": false, "": false} {
		if err := os.WriteFile(stored, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		url, err := find(element)
		if sound != (url == "file://"+stored) || sound != (err == nil) || !sound && !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%q: %q, %v", content, url, err)
		}
	}
}

// lossy storage takes what it is given, and its first answer is lost.
type lossy struct {
	Uploads
	there bool
}

func (l *lossy) Put(context.Context, string, string, task.FileKey, bool) (string, error) {
	l.there = true
	return "", errors.New("no answer")
}

func (l *lossy) Find(context.Context, string, string, task.Bytes, task.Digest) (string, error) {
	if !l.there {
		return "", storage.ErrNotFound
	}
	return "file:///element/x", nil
}

// What an upload has stored whose answer was lost is told, also when nobody wants it
// any more: the queue deletes it then. What was not tried is not looked for.
func TestStoredWithoutAnAnswer(t *testing.T) {
	for _, tried := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n, folder, id := storingNode(t), t.TempDir(), task.OutputID{LFN: "w-a:x"}
			if err := os.WriteFile(filepath.Join(folder, "x"), []byte("made"), 0o600); err != nil {
				t.Fatal(err)
			}
			entry, err := n.cache.Adopt(t.Context(), folder, "x", false, id)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			group, ctx := errgroup.WithContext(ctx)
			settings := &siteSettings{}
			settings.set(task.SiteSettings{SE: "file:///element"})
			var told []message.Event
			u := newUploader(&shell{log: slog.New(slog.DiscardHandler), group: group, context: ctx}, "p", n.cache, &lossy{}, settings,
				func(work func() []message.Event) { told = append(told, work()...) })
			group.Go(func() error { return u.run(ctx) })
			if !tried {
				n.cache.LetGo(entry.Key, id)
			}
			u.put(upload{output: message.Output{Produced: task.Produced{LFN: id.LFN, Size: entry.Size, Digest: entry.Digest}}})
			synctest.Wait()
			if u.pending() != tried {
				t.Errorf("tried %v: pending %v", tried, u.pending())
			}
			n.cache.LetGo(entry.Key, id)
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			if u.pending() {
				t.Errorf("tried %v: pending to the end", tried)
			}
			stored := slices.ContainsFunc(told, func(e message.Event) bool { _, ok := e.(worker.Uploaded); return ok })
			if stored != tried || !slices.Contains(told, message.Event(worker.NotUploaded{Output: id})) {
				t.Errorf("tried %v: told %v", tried, told)
			}
		})
	}
}

// What is kept no more is looked for on the storage element that its upload was meant for,
// also when the site has just lost that one.
func TestAnUploadIsLookedForWhereItWent(t *testing.T) {
	u := newUploader(&shell{log: slog.New(slog.DiscardHandler)}, "p", nil, &lossy{there: true}, &siteSettings{}, nil)
	sought := upload{output: message.Output{Produced: task.Produced{LFN: "w-a:x"}}, tries: 1, sought: true}
	if url, err := u.bring(t.Context(), "file:///element", sought); url != "file:///element/x" || err != nil {
		t.Errorf("an output that is there was looked for: %q, %v", url, err)
	}
}

// Failed uploads of many files are said once in ever longer times, and their end.
func TestFailedUploadsAreSaidOnce(t *testing.T) {
	var failures trouble
	now, said, told := time.Unix(1_000_000, 0), 0, 0
	for range 4 * 3600 { // four hours, one a second
		if failed := failures.add(now); failed > 0 {
			said, told = said+1, told+failed
		}
		now = now.Add(time.Second)
	}
	if said != 9 || told < 2*3600 || !failures.over() || failures.over() {
		t.Errorf("said %d times of %d failures: %+v", said, told, failures)
	}
	if now = now.Add(3 * longestTrouble); failures.add(now) == 0 || failures.add(now.Add(troublePause)) == 0 {
		t.Error("new trouble is not spoken of")
	}
}

func flipOneByte(t *testing.T, cache *disk.Cache, key task.FileKey) {
	t.Helper()
	pinned, err := cache.Pin(key)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	before, err := os.Stat(pinned.Path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(pinned.Path)
	if err != nil {
		t.Fatal(err)
	}
	content[0] ^= 1
	if err := os.Chmod(pinned.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pinned.Path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pinned.Path, before.Mode()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(pinned.Path, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
}
