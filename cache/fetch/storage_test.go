package fetch

import (
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/cache/storage/storagetest"
	"github.com/pilotage-grid/pilotage/task"
)

// quick makes fruitless searches short.
var quick = cache.PlannerConfig{PlannerTries: cache.PlannerTries{Backoff: time.Millisecond}}

// An external file whose digest is not known goes by its name everywhere, and
// has its digest after the first read.
func TestExternalFileByName(t *testing.T) {
	s := newSite(t)
	a, b := s.join(options{}), s.join(options{})
	data := content(1, 100_000)
	file := s.store("genome", data, false)
	file.Size, file.Adler32 = -1, fmt.Sprintf("%08x", adler32.Checksum(data))
	staged, err := a.fetcher.Stage(t.Context(), []task.File{file})
	if err != nil || staged[0].Source != task.SourceSE {
		t.Fatalf("%v, %v", staged, err)
	}
	if staged[0].Entry.Digest != blake3.Sum256(data) || staged[0].Entry.Size != task.Bytes(len(data)) {
		t.Errorf("entry %+v", staged[0].Entry)
	}
	staged[0].Release()
	if source, err := b.read(t.Context(), file, data); err != nil || source != task.SourcePeer {
		t.Errorf("the other pilot by name: %s, %v", source, err)
	}
	file.Digest = blake3.Sum256(data)
	if source, err := s.join(options{}).read(t.Context(), file, data); err != nil || source != task.SourcePeer {
		t.Errorf("a third one by digest: %s, %v", source, err)
	}
}

func TestReadsAreCountedByOwner(t *testing.T) {
	s := newSite(t)
	p := s.join(options{limits: quick})
	other := t.TempDir()
	data := content(1, 5000)
	if err := os.WriteFile(other+"/far", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.storage.Element(storage.FileURL(other)); err != nil {
		t.Fatal(err)
	}
	far := task.File{LFN: "vo:far", Size: 5000, Digest: blake3.Sum256(data), Replicas: []task.Replica{{Site: "siteB", URL: storage.FileURL(other + "/far")}}}
	settings := *s.settings.Load()
	settings.RemoteRead = false
	s.settings.Store(&settings)
	if _, err := p.read(t.Context(), far, data); err == nil || !strings.Contains(err.Error(), "switched off") {
		t.Errorf("remote reading is switched off, got %v", err)
	}
	settings.RemoteRead = true
	s.settings.Store(&settings)
	if source, err := p.read(t.Context(), far, data); err != nil || source != task.SourceRemote {
		t.Errorf("from %s, %v", source, err)
	}
	near := s.store("near", data[:100], true)
	if source, err := p.read(t.Context(), near, data[:100]); err != nil || source != task.SourceSE {
		t.Errorf("from %s, %v", source, err)
	}
	want := []task.SERead{{Owner: "siteA", Files: 1, Bytes: 100}, {Owner: "siteB", Files: 1, Bytes: 5000}}
	if got := p.fetcher.SEReads(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := p.fetcher.SEReads(); len(got) != 0 {
		t.Errorf("counted again: %v", got)
	}
}

// What cannot be had is an error that names the file, every source, and what
// it means.
func TestStageErrors(t *testing.T) {
	s := newSite(t)
	p := s.join(options{limits: quick, capacity: 200_000})
	data := content(1, 1000)
	ok := s.store("fine", data, true)
	unreachable := task.File{LFN: "vo:far", Size: 7, Replicas: []task.Replica{{Site: "siteA", URL: "http://127.0.0.1:1/far"}}}
	vanished := s.store("vanished", data, true)
	vanished.Digest[0]++
	if err := os.Remove(s.folder + "/vanished"); err != nil {
		t.Fatal(err)
	}
	changed := s.store("changed", data, false)
	changed.Adler32 = "00000001"
	otherSize := s.store("size", data, false)
	otherSize.Size++
	vanished.Producer = task.AttemptID{Task: "w-abcdefghij/t", Generation: 1, Pilot: "p", Counter: 1}
	lost := task.File{LFN: "vo:lost", Size: 3, Digest: task.Digest{7}, Producer: vanished.Producer}
	huge := s.store("huge", content(2, 300_000), true)
	files := []task.File{ok, unreachable, vanished, changed, otherSize, lost, huge}
	_, err := p.fetcher.Stage(t.Context(), files)
	var failures cache.FetchErrors
	if !errors.As(err, &failures) || len(failures) != 6 {
		t.Fatalf("got %d failures: %v", len(failures), err)
	}
	for _, want := range []struct {
		file  task.File
		lost  bool
		words string
	}{
		{unreachable, false, "http://127.0.0.1:1/far"},
		{vanished, true, "have it no more"},
		{changed, true, "adler32"},
		{otherSize, true, "size"},
		{lost, true, "no pilot gave it"},
		{huge, false, "does not fit into a cache of"},
	} {
		found := false
		for _, got := range failures {
			if got.File.LFN == want.file.LFN {
				found = got.Lost == want.lost && strings.Contains(got.Error(), want.words) && strings.Contains(got.Error(), string(want.file.LFN))
			}
		}
		if !found {
			t.Errorf("%s (lost %t, %q) is not among %v", want.file.LFN, want.lost, want.words, err)
		}
	}
	var noSpace *cache.NoSpaceError
	if !errors.As(err, &noSpace) || noSpace.Need != 300_000 || noSpace.Capacity != 200_000 {
		t.Errorf("the numbers of the full cache are lost: %+v", noSpace)
	}
	if kind := failures.Kind(); kind != task.InputMissing {
		t.Errorf("the failure is %s, of which wrong bytes cannot be", kind)
	}
	for _, of := range []struct {
		files []task.File
		kind  task.FailureKind
	}{
		{[]task.File{unreachable}, task.StorageFailed},
		{[]task.File{unreachable, huge}, task.PilotFailed},
		{[]task.File{huge, lost}, task.InputMissing},
	} {
		var some cache.FetchErrors
		for _, file := range of.files {
			for _, failure := range failures {
				if failure.File.LFN == file.LFN {
					some = append(some, failure)
				}
			}
		}
		if some.Kind() != of.kind {
			t.Errorf("got %s for %v, want %s", some.Kind(), some, of.kind)
		}
	}
	if got := len(failures.Lost()); got != 2 {
		t.Errorf("%d files are lost, want 2", got)
	}
	if usage := p.cache.Usage(); usage.Pinned != 0 || usage.Reserved != 0 {
		t.Errorf("%s are still pinned, %s reserved", usage.Pinned, usage.Reserved)
	}
}

// The home is an economy, not a lock: when it is silent, everybody reads.
func TestSilentHome(t *testing.T) {
	s := newSite(t)
	pilots := s.joinMany(2, options{homes: cache.HomesConfig{FirstAnswer: 50 * time.Millisecond, AskAgain: 20 * time.Millisecond}})
	data := content(1, 1000)
	file := s.store("x", data, true)
	s.mu.Lock()
	for _, p := range pilots {
		s.mute[p.Peer] = true
	}
	s.mu.Unlock()
	var group sync.WaitGroup
	for _, p := range pilots {
		group.Go(func() {
			if source, err := p.read(t.Context(), file, data); err != nil || source == task.SourceLocal {
				t.Errorf("from %s, %v", source, err)
			}
		})
	}
	group.Wait()
}

// Whoever stops fetching in the middle leaves nothing behind, and tells those
// who wait.
func TestRunEndsInTheMiddle(t *testing.T) {
	s := newSite(t)
	p := s.join(options{})
	arrived, release := make(chan struct{}), make(chan struct{})
	server := storagetest.NewServer()
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(make([]byte, 500))
		_ = http.NewResponseController(w).Flush()
		close(arrived)
		<-release
		return true
	})
	listener := httptest.NewServer(server)
	defer listener.Close()
	defer close(release)
	config := p.fetcher.config
	config.Log = nil
	f := New(config)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	go func() {
		<-arrived
		cancel()
	}()
	file := task.File{LFN: "vo:x", Size: 1000, Replicas: []task.Replica{{Site: s.name, URL: listener.URL + "/x"}}}
	if _, err := f.Stage(t.Context(), []task.File{file}); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if usage := p.cache.Usage(); usage.Reserved != 0 || usage.Pinned != 0 {
		t.Errorf("%s reserved, %s pinned", usage.Reserved, usage.Pinned)
	}
}

// Several attempts of one pilot share a fetch.
func TestSingleFlight(t *testing.T) {
	s := newSite(t)
	p := s.join(options{})
	data := content(1, 1<<20)
	file := s.store("x", data, true)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := p.read(t.Context(), file, data); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if reads := s.storageReads(); reads != 1 {
		t.Errorf("%d reads, want 1", reads)
	}
	staged, err := p.fetcher.Stage(t.Context(), []task.File{file, file})
	if err != nil || staged[0].Source != task.SourceLocal || staged[0].Path != staged[1].Path {
		t.Fatalf("%v, %v", staged, err)
	}
	staged[0].Release()
	if p.cache.Usage().Pinned == 0 {
		t.Error("one release ended both pins")
	}
	staged[1].Release()
	if p.cache.Usage().Pinned != 0 {
		t.Error("a pin is left")
	}
}
