package sqlite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
)

// files are the files of a queue's folder by what their names add to that of the database.
type files map[string][]byte

func readFolder(t *testing.T, folder string) files {
	t.Helper()
	found := files{}
	for _, name := range []string{"", "-wal", "-acknowledged"} {
		content, err := os.ReadFile(filepath.Join(folder, sqlite.FileName+name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			found[name] = content
		}
	}
	return found
}

func (f files) write(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, content := range f {
		if err := os.WriteFile(filepath.Join(folder, sqlite.FileName+name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// read opens a queue and reads all that it has.
func (f files) read(t *testing.T) (text string, err error) {
	t.Helper()
	store, err := sqlite.Open(f.write(t))
	if err != nil {
		return "", err
	}
	defer store.Close()
	err = store.View(context.Background(), func(tx taskqueue.Tx) error {
		listed, err := tx.Files().List("", "", 10_000)
		if err != nil {
			return err
		}
		value, err := tx.Meta().Get("large")
		if err != nil {
			return err
		}
		tasks, err := tx.Tasks().InWorkflow("w-bbbbbbbbbb", 0, 1000)
		if err != nil {
			return err
		}
		pilots, err := tx.Pilots().List("", 1000)
		text = fmt.Sprint(listed, value, tasks, pilots)
		return err
	})
	return text, err
}

func (f files) verify(t *testing.T) error {
	t.Helper()
	_, err := sqlite.Verify(context.Background(), f.write(t))
	return err
}

// crowdedFolder is the folder of a queue whose database has pages of every kind: also
// inner ones, pages that a large row goes on in, and free ones.
func crowdedFolder(t *testing.T) string {
	folder := t.TempDir()
	store := openIn(t, folder)
	storetest.Fill(t, store)
	names := func(from, to int) (records []taskqueue.FileRecord) {
		for i := from; i < to; i++ {
			name := task.LFN(fmt.Sprintf("vo:%s/%06d", strings.Repeat("long", 40), i))
			records = append(records, taskqueue.FileRecord{File: task.File{LFN: name, Size: task.Bytes(i)}})
		}
		return records
	}
	for _, write := range []func(tx taskqueue.Tx) error{
		func(tx taskqueue.Tx) error { return tx.Files().Save(names(0, 900)...) },
		func(tx taskqueue.Tx) error { return tx.Meta().Set("large", bytes.Repeat([]byte("large"), 5000)) },
		func(tx taskqueue.Tx) error { return tx.Files().Delete(lfns(names(200, 500))...) },
	} {
		if err := store.Update(context.Background(), write); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

func lfns(records []taskqueue.FileRecord) (names []task.LFN) {
	for i := range records {
		names = append(names, records[i].LFN)
	}
	return names
}

// A bit that is flipped anywhere in the database or in its log is noticed when the queue
// opens it, when somebody reads, or by Verify; or all is read as it was written.
func TestBitsFlip(t *testing.T) {
	folder := crowdedFolder(t)
	clean := readFolder(t, folder)
	store := openIn(t, folder)
	for i := range 20 {
		set(t, store, fmt.Sprint("later", i), "value")
	}
	if err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
		return tx.Pilots().Save(taskqueue.PilotRecord{ID: "p-99999999", Site: "siteA", State: taskqueue.PilotAlive})
	}); err != nil {
		t.Fatal(err)
	}
	crashed := readFolder(t, folder) // as a kill leaves it
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	const page, header, frame = 4096, 32, 24 + 4096
	var places []place
	for at := 0; at < len(clean[""]); at += page {
		for range 2 {
			places = append(places, place{"a " + kindOfPage(clean[""], at), clean, "", at + random.IntN(page)})
		}
		places = append(places, place{"the start of a " + kindOfPage(clean[""], at), clean, "", at + random.IntN(16)})
	}
	for at := range 100 {
		places = append(places, place{"database header", clean, "", at})
	}
	for at := range header {
		places = append(places, place{"log header", crashed, "-wal", at})
	}
	for at := header; at < len(crashed["-wal"]); at += frame {
		places = append(places, place{"frame header", crashed, "-wal", at + random.IntN(24)}, place{"frame", crashed, "-wal", at + 24 + random.IntN(page)})
	}
	for range 20 {
		places = append(places, place{"database beside a log", crashed, "", random.IntN(len(crashed[""]))})
	}
	random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	withoutLog, err := clean.read(t)
	if err != nil {
		t.Fatal(err)
	}
	withLog, err := crashed.read(t)
	if err != nil {
		t.Fatal(err)
	}
	const most = 16 // of a kind
	count, tried := map[string]int{}, map[string]map[string]int{}
	for _, p := range places {
		if count[p.what]++; count[p.what] > most {
			continue
		}
		if tried[p.what] == nil {
			tried[p.what] = map[string]int{}
		}
		want := withoutLog
		if _, has := p.files["-wal"]; has {
			want = withLog
		}
		tried[p.what][p.flip(t, want, 1<<random.IntN(8))]++
	}
	for what, how := range tried {
		t.Logf("%s: %v", what, how)
	}
	for _, what := range []string{"log header", "frame header", "frame"} {
		if len(tried[what]) != 1 || tried[what]["when it is read"] == 0 {
			t.Errorf("%s: %v, want all noticed when the queue is opened", what, tried[what])
		}
	}
}

// place is a byte of a file in a folder.
type place struct {
	what  string
	files files
	name  string
	at    int
}

// flip changes bits of the byte and tells by whom that is noticed.
func (p place) flip(t *testing.T, want string, bits byte) string {
	t.Helper()
	damaged := files{}
	for name, content := range p.files {
		damaged[name] = bytes.Clone(content)
	}
	damaged[p.name][p.at] ^= bits
	got, err := damaged.read(t)
	if err != nil {
		if !errors.Is(err, sqlite.ErrDamaged) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("byte %d of %q, %s: error %v, want ErrDamaged and the way back", p.at, p.name, p.what, err)
		}
		return "when it is read"
	}
	err = damaged.verify(t)
	switch {
	case err != nil && !errors.Is(err, sqlite.ErrDamaged):
		t.Errorf("byte %d of %q, %s: Verify says %v", p.at, p.name, p.what, err)
	case err != nil:
		return "by Verify"
	case got != want:
		t.Errorf("byte %d of %q, %s: other rows are read and nobody notices", p.at, p.name, p.what)
		return "silent"
	}
	return "as written"
}

// kindOfPage names a page of a database by its first byte.
func kindOfPage(database []byte, at int) string {
	if at == 0 {
		at = 100
	}
	switch database[at] {
	case 2, 5:
		return "inner page"
	case 10, 13:
		return "leaf"
	}
	return "free or continued page"
}

// A log that has lost its end, or all, is refused where that was acknowledged.
func TestLostLog(t *testing.T) {
	folder := crowdedFolder(t)
	store := openIn(t, folder)
	defer store.Close()
	for i := range 3 {
		set(t, store, fmt.Sprint("later", i), "value")
	}
	crashed := readFolder(t, folder)
	whole := crashed["-wal"]
	for kept := 0; kept < len(whole); kept += 4096 + 24 {
		crashed["-wal"] = whole[:kept]
		if _, err := crashed.read(t); !errors.Is(err, sqlite.ErrDamaged) || !strings.Contains(err.Error(), "acknowledged") {
			t.Errorf("%d of %d bytes of the log are left: error %v", kept, len(whole), err)
		}
	}
	delete(crashed, "-wal")
	if _, err := crashed.read(t); !errors.Is(err, sqlite.ErrDamaged) {
		t.Errorf("the log is gone: error %v", err)
	}
	// What was not acknowledged may be there by half.
	frame := bytes.Clone(whole[len(whole)-4096-24:])
	binary.BigEndian.PutUint32(frame[4:], 0)
	crashed["-wal"] = append(bytes.Clone(whole), frame[:2000]...)
	if _, err := crashed.read(t); err != nil {
		t.Errorf("half a frame follows: %v", err)
	}
	if err := crashed.verify(t); err != nil {
		t.Errorf("half a frame follows: %v", err)
	}
	// After a power cut the witness may know less; then the end of the log can be lost.
	delete(crashed, "-acknowledged")
	crashed["-wal"] = whole[:len(whole)-4096-24]
	if err := crashed.verify(t); err != nil {
		t.Errorf("an earlier commit is not whole: %v", err)
	}
}
