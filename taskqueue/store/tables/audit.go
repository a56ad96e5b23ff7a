package tables

import (
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type auditTable struct {
	records[uint64, taskqueue.AuditRecord]
}

var auditKind = kind[uint64, taskqueue.AuditRecord]{
	table: audit, codec: record.New[taskqueue.AuditRecord](),
	id: func(a *taskqueue.AuditRecord) uint64 { return a.At }, key: number[uint64],
}

func (t auditTable) Append(record taskqueue.AuditRecord) error { return t.Save(record) }

func (t auditTable) Last() (last taskqueue.AuditRecord, err error) {
	found, err := t.scan(Span{Down: true}, 1)
	if err == nil && len(found) > 0 {
		last = found[0]
	}
	return last, err
}

func (t auditTable) After(at uint64, limit int) ([]taskqueue.AuditRecord, error) {
	return t.scan(Span{From: number(at + 1)}, limit)
}
