package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/peer"
	"github.com/pilotage-grid/pilotage/task"
)

// rot changes a byte of a cached file so that only reading it shows; damage
// leaves the new time as well.
func (p *pilot) rot(key task.FileKey, hide bool) {
	t := p.site.t
	t.Helper()
	pinned, err := p.cache.Pin(key)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	data, err := os.ReadFile(pinned.Path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(pinned.Path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := errors.Join(os.Chmod(pinned.Path, 0o600), os.WriteFile(pinned.Path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	if hide {
		if err := os.Chtimes(pinned.Path, before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
}

// record keeps what is logged.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// A peer that sends wrong bytes is logged, another source is used, and nothing
// wrong gets into the cache.
func TestWrongBytesFromAPeer(t *testing.T) {
	s := newSite(t)
	bad, good := s.join(options{}), s.join(options{})
	var log record
	p := s.join(options{log: slog.NewTextHandler(&log, nil)})
	data := content(1, 200_000)
	file := bad.hold("x", data)
	bad.rot(file.Key(), true)
	if source, err := p.read(t.Context(), s.stored("x", data), data); err != nil || source != task.SourceSE {
		t.Errorf("with the storage element as the other source: %s, %v", source, err)
	}
	if text := log.String(); !strings.Contains(text, "wrong bytes") || !strings.Contains(text, string(bad.Peer)) {
		t.Errorf("the log does not name the peer: %s", text)
	}
	p2 := s.join(options{})
	s.mu.Lock()
	s.holders[file.Key()] = []Holder{bad.Holder}
	s.mu.Unlock()
	good.hold("x", data)
	if source, err := p2.read(t.Context(), file, data); err != nil || source != task.SourcePeer {
		t.Errorf("with another peer as the other source: %s, %v", source, err)
	}
}

// stored is a file at the storage element whose digest is known.
func (s *site) stored(name string, data []byte) task.File { return s.store(name, data, true) }

// A peer that dies in the middle: the chunks it gave stay, the rest comes from
// another one.
func TestPeerDiesInTheMiddle(t *testing.T) {
	s := newSite(t)
	const chunk = int(disk.ChunkSize)
	dies := s.join(options{cutAfter: int64(chunk) + 2<<20})
	lives := s.join(options{cutAfter: 1 << 30})
	data := content(1, chunk+4<<20)
	file := dies.hold("x", data)
	lives.hold("x", data)
	s.mu.Lock()
	s.holders[file.Key()], s.later[file.Key()] = []Holder{dies.Holder}, []Holder{lives.Holder}
	s.mu.Unlock()
	p := s.join(options{limits: quick})
	if source, err := p.read(t.Context(), file, data); err != nil || source != task.SourcePeer {
		t.Errorf("from %s, %v", source, err)
	}
	lives.gate.mu.Lock()
	defer lives.gate.mu.Unlock()
	if sent := 1<<30 - lives.gate.left; sent < 4<<20 || sent > int64(chunk) {
		t.Errorf("the other one sent %d bytes, want little more than the last chunk of 4 MiB", sent)
	}
}

// The same with the storage element as the other source: it is read from where
// the peer stopped.
func TestStorageGivesTheRest(t *testing.T) {
	s := newSite(t)
	const chunk = int(disk.ChunkSize)
	dies := s.join(options{cutAfter: int64(chunk) + 2<<20})
	data := content(1, chunk+4<<20)
	dies.hold("x", data)
	p := s.join(options{limits: quick})
	if source, err := p.read(t.Context(), s.stored("x", data), data); err != nil || source != task.SourceSE {
		t.Errorf("from %s, %v", source, err)
	}
	want := task.SERead{Owner: "siteA", Files: 1, Bytes: 4 * task.MiB}
	if reads := p.fetcher.SEReads(); len(reads) != 1 || reads[0] != want {
		t.Errorf("read %+v from the storage element, want %+v", reads, want)
	}
}

// A peer whose content is not what the catalogue says, though it fits its own
// manifest, is found out when the file is whole.
func TestPeerWithOtherContent(t *testing.T) {
	s := newSite(t)
	wrong, p := s.join(options{}), s.join(options{})
	data := content(1, 5000)
	file := s.store("x", data, false)
	file.Adler32 = fmt.Sprintf("%08x", adler32.Checksum(data))
	w, err := wrong.cache.Create(file.Key(), file.Size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(content(2, 5000), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Publish(disk.Expect{}); err != nil {
		t.Fatal(err)
	}
	s.announce(file.Key(), wrong.Holder)
	if source, err := p.read(t.Context(), file, data); err != nil || source != task.SourceSE {
		t.Errorf("from %s, %v", source, err)
	}
}

// One slow holder and many who want the file, without a storage element: busy
// is not dead, and those who have it serve the others.
func TestBusyHolder(t *testing.T) {
	s := newSite(t)
	o := options{server: peer.ServerConfig{MaxTransfers: 1, RetryAfter: 20 * time.Millisecond}}
	data := content(1, 1<<20)
	file := s.join(o).hold("x", data)
	pilots := s.joinMany(8, o)
	var group sync.WaitGroup
	for _, p := range pilots[1:] {
		group.Go(func() {
			if source, err := p.read(t.Context(), file, data); err != nil || source != task.SourcePeer {
				t.Errorf("from %s, %v", source, err)
			}
		})
	}
	group.Wait()
}

// FACTS "Traps": a serving path that waits on its own fetch deadlocks two
// peers against each other.
func TestTwoPilotsWantEachOthersFiles(t *testing.T) {
	s := newSite(t)
	o := options{server: peer.ServerConfig{MaxTransfers: 1, RetryAfter: 10 * time.Millisecond}, limits: cache.PlannerConfig{PlannerLimits: cache.PlannerLimits{MaxTransfers: 1}}}
	a, b := s.join(o), s.join(o)
	var ofA, ofB []task.File
	for i := range 10 {
		ofA = append(ofA, a.hold(fmt.Sprintf("a%d", i), content(uint64(i), 100_000)))
		ofB = append(ofB, b.hold(fmt.Sprintf("b%d", i), content(uint64(100+i), 100_000)))
	}
	var group sync.WaitGroup
	stage := func(p *pilot, files []task.File) {
		group.Go(func() {
			staged, err := p.fetcher.Stage(t.Context(), files)
			if err != nil {
				t.Error(err)
			}
			for _, one := range staged {
				one.Release()
			}
		})
	}
	stage(a, ofB)
	stage(b, ofA)
	group.Wait()
}

func TestThousandSmallFiles(t *testing.T) {
	s := newSite(t)
	a, b := s.join(options{}), s.join(options{})
	var files []task.File
	for i := range 1000 {
		files = append(files, a.hold(fmt.Sprintf("f%d", i), content(uint64(i), 100+i)))
	}
	staged, err := b.fetcher.Stage(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range staged {
		if one.File.LFN != files[i].LFN || one.Entry.Digest != files[i].Digest || one.Source != task.SourcePeer {
			t.Fatalf("file %d is %s from %s", i, one.File.LFN, one.Source)
		}
		one.Release()
	}
}

// A damaged file of the own cache is dropped and fetched anew.
func TestDamagedOwnFile(t *testing.T) {
	s := newSite(t)
	a, b := s.join(options{}), s.join(options{})
	data := content(1, 10_000)
	file := a.hold("x", data)
	b.hold("x", data)
	b.rot(file.Key(), false)
	if source, err := b.read(t.Context(), file, data); err != nil || source != task.SourcePeer {
		t.Errorf("from %s, %v", source, err)
	}
}

// Whoever gives up leaves neither pins nor parts behind.
func TestStageEndsWithItsContext(t *testing.T) {
	s := newSite(t)
	slow := s.join(options{server: peer.ServerConfig{MaxTransfers: 1}})
	data := content(1, 1000)
	held := slow.hold("held", data)
	p := s.join(options{})
	have := p.hold("have", data[:10])
	missing := task.File{LFN: "vo:missing", Size: 5, Digest: task.Digest{1}}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the task was cancelled")
	s.mu.Lock()
	s.holders[missing.Key()] = []Holder{{Peer: "nobody", DataURL: "https://127.0.0.1:1"}}
	s.mu.Unlock()
	time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
	if _, err := p.fetcher.Stage(ctx, []task.File{have, held, missing}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if usage := p.cache.Usage(); usage.Pinned != 0 || usage.Reserved != 0 {
		t.Errorf("%s are still pinned, %s reserved", usage.Pinned, usage.Reserved)
	}
}
