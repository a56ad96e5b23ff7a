package tables

import (
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type usageTable struct {
	records[taskqueue.UsageKey, taskqueue.Usage]
}

func usageKey(k taskqueue.UsageKey) key { return text(k.Day).text(k.Owner).text(string(k.Site)) }

var usageKind = kind[taskqueue.UsageKey, taskqueue.Usage]{
	table: usage, codec: record.New[taskqueue.Usage](),
	id: func(u *taskqueue.Usage) taskqueue.UsageKey { return u.UsageKey }, key: usageKey,
}

func (t usageTable) Since(day string, after taskqueue.UsageKey, limit int) ([]taskqueue.Usage, error) {
	span := Span{From: text(day)}
	if after != (taskqueue.UsageKey{}) {
		span.From = append(usageKey(after), 0)
	}
	return t.scan(span, limit)
}
