package storetest

import "github.com/pilotage-grid/pilotage/taskqueue"

func (t modelAudit) Append(record taskqueue.AuditRecord) error {
	t.audit[record.At] = record
	return nil
}

func (t modelAudit) Delete(at ...uint64) error {
	for _, moment := range at {
		delete(t.audit, moment)
	}
	return nil
}

func (t modelAudit) Last() (last taskqueue.AuditRecord, err error) {
	for at, record := range t.audit {
		if at >= last.At {
			last = record
		}
	}
	return last, nil
}

func (t modelAudit) After(at uint64, limit int) ([]taskqueue.AuditRecord, error) {
	return head(where(t.audit, func(a taskqueue.AuditRecord) bool { return a.At > at }), limit), nil
}
