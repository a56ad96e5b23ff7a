package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// An upload is perhaps not the first to its name if it was tried, or if another pilot or
// an earlier run has the same output.
func TestWhichUploadsArePerhapsThere(t *testing.T) {
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
		return "", nil
	}
	return "file:///element/x", nil
}

// What an upload has stored whose answer was lost is told, also when nobody wants it
// any more: the queue deletes it then. What was not tried is not looked for.
func TestStoredWithoutAnAnswer(t *testing.T) {
	for _, tried := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			folder, id := t.TempDir(), task.OutputID{LFN: "w-a:x"}
			cache, err := disk.Open(disk.Config{Dir: t.TempDir(), Capacity: task.MiB})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cache.Close() }()
			if err := os.WriteFile(filepath.Join(folder, "x"), []byte("made"), 0o600); err != nil {
				t.Fatal(err)
			}
			entry, err := cache.Adopt(t.Context(), folder, "x", false, id)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			group, ctx := errgroup.WithContext(ctx)
			settings := &siteSettings{}
			settings.set(task.SiteSettings{SE: "file:///element"})
			var told []message.Event
			u := newUploader(&shell{log: slog.New(slog.DiscardHandler), group: group, context: ctx}, "p", cache, &lossy{}, settings,
				func(work func() []message.Event) { told = append(told, work()...) })
			group.Go(func() error { return u.run(ctx) })
			if !tried {
				cache.LetGo(entry.Key, id)
			}
			u.put(upload{output: message.Output{Produced: task.Produced{LFN: id.LFN, Size: entry.Size, Digest: entry.Digest}}})
			synctest.Wait()
			if u.pending() != tried {
				t.Errorf("tried %v: pending %v", tried, u.pending())
			}
			cache.LetGo(entry.Key, id)
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
