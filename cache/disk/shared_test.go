package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotage-grid/pilotage/internal/filelock"
	"github.com/pilotage-grid/pilotage/task"
)

// sharer is a cache on a shared folder that writes down what it is told.
type sharer struct {
	*Cache
	mu      sync.Mutex
	gone    []task.FileKey
	brought []Entry
}

func shareFolder(t *testing.T, dir string, capacity task.Bytes) *sharer {
	t.Helper()
	s := &sharer{}
	note := func(what func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		what()
	}
	s.Cache = openCache(t, Config{
		Dir: dir, Shared: true, Capacity: capacity,
		Evicted: func(keys []task.FileKey) { note(func() { s.gone = append(s.gone, keys...) }) },
		Brought: func(files []Entry) { note(func() { s.brought = append(s.brought, files...) }) },
	})
	return s
}

// look has a cache take in what the others have done.
func (s *sharer) look() {
	s.enter()
	s.leave()
}

func (s *sharer) has(key task.FileKey) bool {
	s.look()
	_, found := s.Lookup(key)
	return found
}

func TestPilotsOfOneFolderKnowOfEachOthersFiles(t *testing.T) {
	dir := t.TempDir()
	a, b := shareFolder(t, dir, task.GiB), shareFolder(t, dir, task.GiB)
	data := someBytes(1, 1000)
	entry := put(t, a.Cache, "lfn:vo:one", data)
	if got := readBack(t, b.Cache, "lfn:vo:one"); !bytes.Equal(got, data) || len(b.brought) != 1 || b.brought[0].Key != entry.Key {
		t.Errorf("the other pilot reads %d bytes and was told of %v", len(got), b.brought)
	}
	if _, err := b.Create(entry.Key, 1000); !errors.Is(err, ErrExists) {
		t.Errorf("it would fetch the file again: %v", err)
	}
	put(t, b.Cache, "lfn:vo:other", data) // the same bytes under another name
	late := shareFolder(t, dir, task.GiB)
	for i, c := range []*sharer{a, b, late} {
		if !c.has("lfn:vo:one") || !c.has("lfn:vo:other") || c.Usage().Used != 1000 || c.Usage().Sharers != 3 {
			t.Errorf("pilot %d: %+v", i, c.Usage())
		}
	}
	if err := b.Drop(entry.Key); err != nil {
		t.Fatal(err)
	}
	for i, c := range []*sharer{a, late} {
		if c.has(entry.Key) || c.has("lfn:vo:other") || len(c.gone) != 3 || c.Usage().Used != 0 {
			t.Errorf("pilot %d was told of %v: %+v", i, c.gone, c.Usage())
		}
	}
	checkFolder(t, a.Cache)
}

func TestAFolderIsSharedByAllOrByNobody(t *testing.T) {
	dir := t.TempDir()
	shareFolder(t, dir, task.GiB)
	if _, err := Open(Config{Dir: dir, Capacity: task.GiB, Log: quiet()}); !errors.Is(err, ErrInUse) {
		t.Errorf("alone beside one who shares: %v", err)
	}
	if _, err := Examine(t.Context(), dir); !errors.Is(err, ErrInUse) {
		t.Errorf("examined while in use: %v", err)
	}
	dir = t.TempDir()
	openCache(t, Config{Dir: dir})
	if _, err := Open(Config{Dir: dir, Shared: true, Capacity: task.GiB, Log: quiet()}); !errors.Is(err, ErrInUse) {
		t.Errorf("shared beside one who is alone: %v", err)
	}
}

// What another pilot has pinned stays; what all have reserved counts in one total.
func TestTheTotalAndThePinsAreThoseOfAll(t *testing.T) {
	dir := t.TempDir()
	a, b := shareFolder(t, dir, 1000), shareFolder(t, dir, 1000)
	used, idle := put(t, a.Cache, "lfn:used", someBytes(1, 300)), put(t, a.Cache, "lfn:idle", someBytes(2, 300))
	pinned, err := a.Pin("lfn:used")
	if err != nil {
		t.Fatal(err)
	}
	twice, err := a.Pin("lfn:used")
	if err != nil {
		t.Fatal(err)
	}
	twice.Release()
	b.look()
	if b.Evict("lfn:used") {
		t.Error("a file that another pilot uses was evicted")
	}
	if _, err := b.Create("lfn:large", 800); !isNoSpace(err) || !a.has("lfn:idle") {
		t.Errorf("800 bytes beside 300 in use: %v", err)
	}
	w, err := b.Create("lfn:large", 600)
	if err != nil {
		t.Fatal(err)
	}
	if !a.has(used.Key) || a.has(idle.Key) {
		t.Errorf("of the two files there are %v", a.Entries())
	}
	if _, err := a.Create("lfn:more", 200); !isNoSpace(err) {
		t.Errorf("200 bytes beside 600 that another pilot has reserved: %v", err)
	}
	w.Abort()
	pinned.Release()
	w, err = b.Create("lfn:large", 1000)
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	a.look()
	checkFolder(t, a.Cache)
}

// The file that some pilot has used last goes last.
func TestEvictionFollowsTheUseOfAll(t *testing.T) {
	dir := t.TempDir()
	a, b := shareFolder(t, dir, 1000), shareFolder(t, dir, 1000)
	put(t, b.Cache, "lfn:old", someBytes(1, 300))
	put(t, b.Cache, "lfn:young", someBytes(2, 300))
	readBack(t, a.Cache, "lfn:old")
	put(t, b.Cache, "lfn:new", someBytes(3, 400))
	if !b.has("lfn:old") || b.has("lfn:young") {
		t.Errorf("evicted was what another pilot has just used: %v", b.Entries())
	}
}

func TestDamageIsFoundByOneForAll(t *testing.T) {
	dir := t.TempDir()
	a, b := shareFolder(t, dir, task.GiB), shareFolder(t, dir, task.GiB)
	entry := put(t, a.Cache, "lfn:rots", someBytes(1, 1000))
	flipByte(t, a.contentPath(entry.Digest))
	pinned, err := b.Pin("lfn:rots")
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	var corrupt *CorruptError
	if err := pinned.Verify(t.Context()); !errors.As(err, &corrupt) {
		t.Fatalf("a file of another pilot counts as whole before it was read: %v", err)
	}
	if a.has("lfn:rots") || !slices.Equal(a.gone, []task.FileKey{entry.Key, "lfn:rots"}) {
		t.Errorf("the pilot that brought it was told of %v", a.gone)
	}
}

// Outputs stay while the pilot that made them lives; another one keeps them then.
func TestOutputsAreInherited(t *testing.T) {
	dir := t.TempDir()
	a, b := shareFolder(t, dir, 1000), shareFolder(t, dir, 1000)
	entry, err := adopt(t.Context(), a.Cache, output(t, someBytes(1, 600)), false, made("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create("lfn:large", 500); !isNoSpace(err) {
		t.Errorf("room was made of another pilot's output: %v", err)
	}
	seen, _ := b.Lookup(entry.Key)
	if b.LetGo(entry.Key, made("x")); len(seen.Outputs) > 0 || !slices.Equal(seen.Others, []task.OutputID{made("x")}) || b.Evict(entry.Key) {
		t.Errorf("the other pilot's output is %+v, or was let go by one who does not keep it", seen)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b.brought = nil
	b.look()
	if len(b.brought) != 1 || b.brought[0].Key != entry.Key || !slices.Equal(b.brought[0].Outputs, []task.OutputID{made("x")}) {
		t.Errorf("inherited %+v", b.brought)
	}
	if b.look(); len(b.brought) != 1 || b.Usage().Sharers != 1 {
		t.Errorf("inherited %d times, of %d", len(b.brought), b.Usage().Sharers)
	}
	if b.LetGo(entry.Key, made("x")); !b.Evict(entry.Key) {
		t.Error("what was let go cannot be evicted")
	}
	if _, err := adopt(t.Context(), b.Cache, output(t, someBytes(2, 600)), false, made("y")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	last := shareFolder(t, dir, 1000)
	if files := last.Entries(); len(files) != 1 || !slices.Equal(files[0].Outputs, []task.OutputID{made("y")}) {
		t.Errorf("who comes later keeps %+v", files)
	}
}

// A pilot that is stopped while it has the turn holds the others up for minutes, not for
// ever; what they then say names it, and their pilots end.
func TestWhoKeepsTheTurnIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := shareFolder(t, dir, task.GiB)
		put(t, a.Cache, "lfn:before", someBytes(1, 100))
		turn, err := filelock.Open(filepath.Join(a.dir, "turn"), os.O_RDWR, true)
		if err != nil {
			t.Fatal(err)
		}
		began, ended := time.Now(), make(chan error)
		go func() { ended <- a.Follow(t.Context()) }()
		wait(t.Context(), time.Minute)
		if err := turn.Close(); err != nil {
			t.Fatal(err)
		}
		wait(t.Context(), 5*time.Second)
		put(t, a.Cache, "lfn:after a minute", someBytes(2, 100))
		if turn, err = filelock.Open(filepath.Join(a.dir, "turn"), os.O_RDWR, true); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = turn.Close() }()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d has held it up", os.Getpid())) {
			t.Errorf("the pilot's cache ended with %v", err)
		}
		if waited := time.Since(began); waited < turnMost || waited > 2*turnMost {
			t.Errorf("it waited for %s", waited)
		}
		if _, err := a.Create("lfn:x", 10); !errors.Is(err, ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
		if _, err := a.Pin("lfn:before"); !errors.Is(err, ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
		if got := filelock.Holder(turn); got != fmt.Sprintf("process %d", os.Getpid()) {
			t.Errorf("the holder is %s", got)
		}
	})
}

// A journal that is gone, or has become long, costs a look at the folder and no more.
func TestALostJournalLosesNothing(t *testing.T) {
	dir := t.TempDir()
	a, b := shareFolder(t, dir, task.GiB), shareFolder(t, dir, task.GiB)
	gone := put(t, a.Cache, "lfn:gone", someBytes(1, 100))
	b.look()
	a.enter()
	a.noteAll()
	a.leave()
	put(t, a.Cache, "lfn:new", someBytes(2, 100))
	if err := a.Drop(gone.Key); err != nil {
		t.Fatal(err)
	}
	if !b.has("lfn:new") || b.has("lfn:gone") {
		t.Errorf("without a journal: %v", b.Entries())
	}
	a.enter()
	a.shared.read = maxJournal // as if it were that long
	a.note(fileUsed, gone.Digest)
	a.leave()
	put(t, b.Cache, "lfn:newer", someBytes(3, 100))
	if !a.has("lfn:newer") {
		t.Error("the pilots have two journals")
	}
	checkFolder(t, b.Cache)
}

// TestRandomSharers lets three pilots do anything in turn, with some of them ending
// without a word and new ones in their place.
func TestRandomSharers(t *testing.T) {
	dir, seed := t.TempDir(), rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	const capacity = 6000
	all := []*sharer{shareFolder(t, dir, capacity), shareFolder(t, dir, capacity), shareFolder(t, dir, capacity)}
	pins := map[*sharer][]*Pinned{}
	writers := map[*sharer]*Writer{}
	for step := range 500 {
		c := all[random.IntN(len(all))]
		data := someBytes(random.Uint64N(12), 1000)
		switch key := keyOf(data); random.IntN(8) {
		case 0:
			if pinned, err := c.Pin(key); err == nil {
				pins[c] = append(pins[c], pinned)
			}
		case 1, 2:
			for _, pinned := range pins[c] {
				if _, err := os.Stat(pinned.Path); err != nil {
					t.Errorf("seed %d, step %d: a file in use is gone: %v", seed, step, err)
				}
				pinned.Release()
			}
			pins[c] = nil
		case 3:
			if w := writers[c]; w != nil {
				w.Abort()
			}
			writers[c], _ = c.Create("lfn:half", task.Bytes(random.IntN(3000)))
		case 4:
			if random.IntN(10) == 0 {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				i := slices.Index(all, c)
				all[i] = shareFolder(t, dir, capacity)
				delete(pins, c)
				delete(writers, c)
			}
		default:
			if w, err := c.Create(key, 1000); err == nil {
				if _, err := w.WriteAt(data, 0); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Publish(Expect{}); err != nil {
					t.Fatal(err)
				}
			} else if !errors.Is(err, ErrExists) && !isNoSpace(err) {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		bytes := contentBytes(t, dir)
		for i, other := range all {
			other.look()
			if usage := other.Usage(); usage.Used != bytes || usage.Used+usage.Reserved > capacity {
				t.Fatalf("seed %d, step %d: pilot %d counts %+v of %d bytes", seed, step, i, usage, bytes)
			}
		}
	}
}

// contentBytes are those of all files that are published.
func contentBytes(t *testing.T, dir string) (total task.Bytes) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, cacheFolder, "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if filepath.Ext(path) == metaSuffix {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		total += task.Bytes(info.Size())
	}
	return total
}

// TestSharersThatAreKilled has processes do anything in one folder and kills them at
// any moment: at each, files and what is reserved are below the cap, and at the end all
// files are whole and nothing is left of the dead.
func TestSharersThatAreKilled(t *testing.T) {
	dir := t.TempDir()
	watch := shareFolder(t, dir, crowdCapacity)
	turn, err := os.OpenFile(filepath.Join(watch.dir, "turn"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	type crowded struct {
		*exec.Cmd
		works io.Reader // has a byte once the process has done something
	}
	start := func() crowded {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childFolder+"="+dir, childMoment+"=crowd")
		works, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return crowded{child, works}
	}
	children := []crowded{start(), start(), start()}
	stop := func(child crowded) {
		if _, err := io.ReadFull(child.works, make([]byte, 1)); err != nil {
			t.Error("a process ended before it was killed: ", err)
		}
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	for range 12 {
		wait(t.Context(), time.Duration(rand.IntN(40))*time.Millisecond)
		if err := filelock.Lock(turn, true); err != nil {
			t.Fatal(err)
		}
		if bytes := contentBytes(t, dir); bytes > crowdCapacity {
			t.Errorf("%d bytes in files", bytes)
		}
		if err := filelock.Unlock(turn); err != nil {
			t.Fatal(err)
		}
		watch.look()
		if usage := watch.Usage(); usage.Used+usage.Reserved > crowdCapacity {
			t.Errorf("usage %+v", usage)
		}
		i := rand.IntN(len(children))
		stop(children[i])
		children[i] = start()
	}
	for _, child := range children {
		stop(child)
	}
	watch.look()
	if usage := watch.Usage(); usage.Reserved != 0 || usage.Sharers != 1 || len(watch.brought) == 0 {
		t.Errorf("the dead hold something, or they have never done anything: %+v, %d files came", usage, len(watch.brought))
	}
	checkFolder(t, watch.Cache)
}

const crowdCapacity = 200_000

// crowdChild does anything until it is killed.
func crowdChild() int {
	c, err := Open(Config{Dir: os.Getenv(childFolder), Shared: true, Capacity: crowdCapacity, Log: quiet()})
	if err != nil {
		return 1
	}
	for i := 0; ; i++ {
		if i == 5 {
			fmt.Print("w")
		}
		data := someBytes(rand.Uint64N(30), 20_000)
		if pinned, err := c.Pin(keyOf(data)); err == nil {
			if err := pinned.Verify(context.Background()); err != nil && !errors.Is(err, ErrNotCached) {
				return 1
			}
			pinned.Release()
			continue
		}
		w, err := c.Create(task.FileKey("lfn:"+strconv.Itoa(i)), -1)
		if err != nil {
			continue
		}
		if _, err = w.WriteAt(data, 0); err == nil {
			_, err = w.Publish(Expect{})
		}
		if w.Abort(); err != nil && !isNoSpace(err) {
			return 1
		}
	}
}

// TestKilledInTheMiddle kills a process at each step of a publication beside one that
// lives: that one sees no half file, and gets the room back and the turn to fetch.
func TestKilledInTheMiddle(t *testing.T) {
	for _, moment := range []string{"half written", "before content", "before metadata"} {
		t.Run(moment, func(t *testing.T) {
			dir := t.TempDir()
			c := shareFolder(t, dir, task.MiB)
			published := runCrashChild(t, dir, "shared "+moment, func() {
				if moment == "half written" { // else the other has the turn
					c.look()
					if usage := c.Usage(); usage.Reserved != crashSize || usage.Sharers != 2 {
						t.Errorf("while the other lives: %+v", usage)
					}
				}
				waiting, stop := context.WithCancel(t.Context())
				stop() // else it waits
				c.Alone(waiting, keyOf(bytes.Repeat([]byte{crashAfter}, crashSize)))
				if held, err := filelock.ByteHeld(c.shared.fetching, fetchPlace(keyOf(bytes.Repeat([]byte{crashAfter}, crashSize)))); err != nil || !held {
					t.Errorf("two fetch one file: %v", err)
				}
			})
			if c.look(); len(c.Entries()) != published || c.Usage().Reserved != 0 || c.Usage().Sharers != 1 {
				t.Errorf("%d files of %d: %+v", len(c.Entries()), published, c.Usage())
			}
			checkFolder(t, c.Cache)
			key := keyOf(bytes.Repeat([]byte{crashAfter}, crashSize))
			release := c.Alone(t.Context(), key)
			defer release()
			put(t, c.Cache, key, bytes.Repeat([]byte{crashAfter}, crashSize))
		})
	}
}
