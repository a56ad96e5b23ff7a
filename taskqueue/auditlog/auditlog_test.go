package auditlog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/auditlog"
)

// began is when the records of the tests begin.
var began = time.Date(2026, 11, 24, 13, 5, 0, 0, time.UTC)

// chain makes records of attempts as a site with 200 pilots would have them, in segments
// that follow each other.
func chain(segments, records, entries int) (chain []taskqueue.AuditSegment) {
	var digest [32]byte
	at := began
	pick := rand.IntN
	for range segments {
		s := taskqueue.AuditSegment{Before: digest}
		for range records {
			at = at.Add(time.Duration(1 + pick(2_000_000_000)))
			record := taskqueue.AuditRecord{At: uint64(at.UnixNano())}
			for range entries {
				id := task.AttemptID{
					Task: task.NewID("w-abcdefghij", fmt.Sprintf("step%d[%06d]", pick(5), pick(100_000))), Generation: 1, Lease: task.LeaseID(pick(1000)),
					Pilot: task.PilotID(fmt.Sprintf("p-pilot%03d", pick(200))), Counter: uint64(pick(5000)),
				}
				ended := at.Add(-time.Duration(pick(5000)) * time.Millisecond).Truncate(time.Millisecond)
				record.Entries = append(record.Entries, taskqueue.AuditEntry{
					Kind: taskqueue.AuditRan, Person: "alice", Subject: id.String(), Site: "siteA", Node: fmt.Sprintf("wn%03d.example.org", pick(50)), Pilot: id.Pilot,
					Process: 1000 + pick(4_000_000), Job: fmt.Sprintf("slurm:%d", 100_000+pick(200)), Started: ended.Add(-time.Duration(pick(3_600_000)) * time.Millisecond), Ended: ended, Note: "succeeded",
				})
			}
			record.Digest = record.Sum(digest)
			digest = record.Digest
			s.Records = append(s.Records, record)
		}
		chain = append(chain, s)
	}
	return chain
}

func add(t testing.TB, closed *auditlog.Closed, segments ...taskqueue.AuditSegment) {
	t.Helper()
	for _, s := range segments {
		if err := closed.Add(s); err != nil {
			t.Fatal(err)
		}
	}
}

// all reads everything, and follows the chain.
func all(closed *auditlog.Closed) (records []taskqueue.AuditRecord, err error) {
	var check taskqueue.AuditCheck
	for {
		s, err := closed.After(check.Last)
		if err == nil {
			err = check.Follow(s)
		}
		if err != nil || len(s.Records) == 0 {
			return records, err
		}
		records = append(records, s.Records...)
	}
}

func recordsOf(segments []taskqueue.AuditSegment) (records []taskqueue.AuditRecord) {
	for _, s := range segments {
		records = append(records, s.Records...)
	}
	return records
}

// Records come back as they were, from any time on; only the owner may read the files.
func TestRecordsComeBack(t *testing.T) {
	queue := t.TempDir()
	closed := auditlog.In(queue)
	if last, err := closed.Last(); last != 0 || err != nil {
		t.Fatalf("of no folder: %d, %v", last, err)
	}
	segments := chain(3, 20, 2)
	add(t, closed, segments...)
	want := recordsOf(segments)
	got, err := all(closed)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d records of %d, %v", len(got), len(want), err)
	}
	for i, record := range want {
		s, err := closed.After(record.At - 1)
		if err != nil || len(s.Records) == 0 || s.Records[0].At != record.At {
			t.Errorf("from record %d on: %v", i, err)
		}
	}
	if last, err := closed.Last(); err != nil || last != want[len(want)-1].At {
		t.Errorf("last %d, %v", last, err)
	}
	for _, path := range files(t, queue) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func files(t *testing.T, queue string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(queue, auditlog.FolderName, "*.jsonl.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	return paths
}

// A file that was changed, by name or content, and one that is missing, show.
func TestAForgedFileShows(t *testing.T) {
	forgeries := map[string]func(path string) error{
		"missing": os.Remove,
		"cut off": func(path string) error { return os.Truncate(path, 300) },
		"renamed": func(path string) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), "20261124T130000.000000000-"+strings.SplitAfterN(filepath.Base(path), "-", 2)[1]))
		},
		"empty": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"another person": func(path string) error {
			return rewrite(path, func(text []byte) []byte { return bytes.Replace(text, []byte("alice"), []byte("bob"), 1) })
		},
		"a line less": func(path string) error {
			return rewrite(path, func(text []byte) []byte {
				lines := bytes.SplitAfter(text, []byte("\n"))
				return bytes.Join(slices.Delete(lines, 5, 6), nil)
			})
		},
		"no digest": func(path string) error {
			return rewrite(path, func(text []byte) []byte { return text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1] })
		},
		"nothing before": func(path string) error {
			return rewrite(path, func(text []byte) []byte { return text[bytes.IndexByte(text, '\n')+1:] })
		},
	}
	for name, forge := range forgeries {
		queue := t.TempDir()
		closed := auditlog.In(queue)
		add(t, closed, chain(3, 20, 2)...)
		if err := forge(files(t, queue)[1]); err != nil {
			t.Fatal(err)
		}
		if _, err := all(closed); !errors.Is(err, taskqueue.ErrAuditBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func rewrite(path string, change func([]byte) []byte) error {
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	unpacked, err := gzip.NewReader(opened)
	if err != nil {
		return err
	}
	var text, packed bytes.Buffer
	if _, err := text.ReadFrom(unpacked); err != nil {
		return err
	}
	pack := gzip.NewWriter(&packed)
	_, err = pack.Write(change(text.Bytes()))
	return errors.Join(err, pack.Close(), os.WriteFile(path, packed.Bytes(), 0o600))
}

// What is old enough goes; what is later than a database that was put back is set aside;
// a copy has what counts.
func TestOldAndForeignFiles(t *testing.T) {
	queue, backup := t.TempDir(), t.TempDir()
	closed := auditlog.In(queue)
	segments := chain(4, 20, 2)
	add(t, closed, segments...)
	newest := segments[3].Records[19].Time()
	if err := closed.Drop(newest.Sub(segments[0].Records[19].Time()) + 1); err != nil {
		t.Fatal(err)
	}
	if got, err := all(closed); err != nil || !reflect.DeepEqual(got, recordsOf(segments)) {
		t.Errorf("%d records when the first file was nearly old, %v", len(got), err)
	}
	if err := closed.Drop(newest.Sub(segments[0].Records[19].Time())); err != nil {
		t.Fatal(err)
	}
	if got, err := all(closed); err != nil || !reflect.DeepEqual(got, recordsOf(segments[1:])) {
		t.Errorf("%d records when the first file was old, %v", len(got), err)
	}
	names, err := closed.SetAside(segments[3].Records[7].At)
	if err != nil || len(names) != 1 || !strings.HasSuffix(names[0], ".aside") {
		t.Errorf("set aside: %v, %v", names, err)
	}
	if err := closed.CopyTo(backup); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []*auditlog.Closed{closed, auditlog.In(backup)} {
		if got, err := all(folder); err != nil || !reflect.DeepEqual(got, recordsOf(segments[1:3])) {
			t.Errorf("%d records, %v", len(got), err)
		}
	}
}

// A clock that jumps ahead, once and for good, ages no file by more than a day.
func TestAClockThatJumpsDropsNothing(t *testing.T) {
	closed := auditlog.In(t.TempDir())
	segments := chain(10, 5, 1)
	for i, s := range segments {
		jump := time.Duration(i) * time.Hour
		if i >= 5 {
			jump += 10 * 365 * 24 * time.Hour
		}
		for j := range s.Records {
			s.Records[j].At += uint64(jump)
		}
	}
	digest := segments[0].Before
	for i := range segments {
		segments[i].Before = digest
		for j := range segments[i].Records {
			digest = segments[i].Records[j].Sum(digest)
			segments[i].Records[j].Digest = digest
		}
	}
	add(t, closed, segments...)
	if err := closed.Drop(taskqueue.KeepAudit); err != nil {
		t.Fatal(err)
	}
	if got, err := all(closed); err != nil || !reflect.DeepEqual(got, recordsOf(segments)) {
		t.Errorf("%d records of %d are left, %v", len(got), 10*5, err)
	}
}

// BenchmarkAdd tells how many bytes an attempt takes in a file, and in the database before.
func BenchmarkAdd(b *testing.B) {
	segments := chain(1, 200, 50)
	var size int64
	for b.Loop() {
		queue := b.TempDir()
		add(b, auditlog.In(queue), segments...)
		paths, err := filepath.Glob(filepath.Join(queue, auditlog.FolderName, "*"))
		if err != nil || len(paths) != 1 {
			b.Fatal(paths, err)
		}
		info, err := os.Stat(paths[0])
		if err != nil {
			b.Fatal(err)
		}
		size = info.Size()
	}
	b.ReportMetric(float64(size)/10_000, "B/attempt")
}
