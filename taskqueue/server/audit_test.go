package server_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/auditlog"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// noted is how many entries the tests note at a time: more than stay in the database.
const noted = 10_500

// note appends entries with the numbers from one on, in records of a hundred.
func (q *queue) note(from int) {
	q.t.Helper()
	for i := from; i < from+noted; i += 100 {
		if err := q.server.Store().Update(q.ctx, func(tx taskqueue.Tx) error {
			last, err := tx.Audit().Last()
			if err != nil {
				return err
			}
			next := taskqueue.AuditRecord{At: max(last.At+1, uint64(time.Now().UnixNano())), Entries: make([]taskqueue.AuditEntry, 100)}
			for j := range next.Entries {
				next.Entries[j] = taskqueue.AuditEntry{Kind: taskqueue.AuditFiles, Person: "alice", Subject: strconv.Itoa(i + j)}
			}
			next.Digest = next.Sum(last.Digest)
			return tx.Audit().Append(next)
		}); err != nil {
			q.t.Fatal(err)
		}
	}
}

// wantNoted wants all entries that were noted to be told once, in their order, and the
// chain to be whole.
func (q *queue) wantNoted(n int) {
	q.t.Helper()
	admin, told := q.admin(), 0
	for request := (&pb.ListAuditRequest{Kinds: []string{taskqueue.AuditFiles}, PageSize: 870}); ; {
		reply, err := admin.ListAudit(q.ctx, request)
		if err != nil {
			q.t.Fatal(err)
		}
		for _, e := range reply.GetEntries() {
			if e.GetSubject() != strconv.Itoa(told) || e.GetPerson() != "alice" {
				q.t.Fatalf("entry %d is %v", told, e)
			}
			told++
		}
		if request.PageToken = reply.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if told != n {
		q.t.Errorf("%d entries are told of %d", told, n)
	}
	if check, err := admin.VerifyAudit(q.ctx, &pb.VerifyAuditRequest{}); err != nil || int(check.GetEntries()) < n {
		q.t.Errorf("%v, %v", check, err)
	}
}

// closed waits for so many files of the log, and for the database to be without their records.
func (q *queue) closed(files int) {
	q.t.Helper()
	q.eventually(strconv.Itoa(files)+" files of the audit log", func() bool {
		found, err := filepath.Glob(filepath.Join(q.dir, auditlog.FolderName, "*.jsonl.gz"))
		if err != nil || len(found) != files {
			return false
		}
		left := 0
		err = q.server.Store().View(q.ctx, func(tx taskqueue.Tx) error {
			records, err := tx.Audit().After(0, 1000)
			left = len(records)
			return err
		})
		return err == nil && left < 20
	})
}

// The older part of the audit log lies in files beside the database; who asks is told
// all of it. It comes back with a backup, also when only the database is put back.
func TestTheAuditLogLeavesTheDatabase(t *testing.T) {
	closing := func(c *server.Config) { c.Timing.CloseAudit = 200 * time.Millisecond }
	q := start(t, onSQLite, closing)
	q.note(0)
	q.closed(1)
	q.wantNoted(noted)
	kept := filepath.Join(t.TempDir(), "kept")
	if _, err := server.Backup(q.ctx, q.dir, kept); err != nil {
		t.Fatal(err)
	}
	q.note(noted)
	q.closed(2)
	q.wantNoted(2 * noted)
	q.stop()

	restored := t.TempDir()
	if _, _, err := server.Restore(t.Context(), kept, restored); err != nil {
		t.Fatal(err)
	}
	startIn(t, restored, nil, onSQLite, closing).wantNoted(noted)

	_, before, err := server.Restore(t.Context(), kept, q.dir)
	if err != nil {
		t.Fatal(err)
	}
	if was, err := filepath.Glob(filepath.Join(before, auditlog.FolderName, "*.jsonl.gz")); err != nil || len(was) != 2 {
		t.Errorf("kept of what was there: %v, %v", was, err)
	}
	// As if only the database had been put back.
	if err := os.RemoveAll(filepath.Join(q.dir, auditlog.FolderName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(before, auditlog.FolderName), filepath.Join(q.dir, auditlog.FolderName)); err != nil {
		t.Fatal(err)
	}
	q = startIn(t, q.dir, nil, onSQLite, closing)
	q.wantNoted(noted)
	q.closed(1)

	path, err := filepath.Glob(filepath.Join(q.dir, auditlog.FolderName, "*.jsonl.gz"))
	if err != nil || len(path) != 1 {
		t.Fatal(path, err)
	}
	if err := os.Truncate(path[0], 1000); err != nil {
		t.Fatal(err)
	}
	_, err = q.admin().VerifyAudit(q.ctx, &pb.VerifyAuditRequest{})
	wantRefusal(t, err, codes.DataLoss, "AUDIT_BROKEN")
}
