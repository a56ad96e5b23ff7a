package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

// How the records of each table are stored.
var (
	workflowCodec   = record.New[taskqueue.Workflow]()
	taskCodec       = record.New[task.Task]()
	stateCodec      = record.New[taskqueue.TaskState]()
	fileCodec       = record.New[taskqueue.FileRecord]()
	classCodec      = record.New[taskqueue.Eligibility]()
	attemptCodec    = record.New[taskqueue.Attempt]()
	leaseCodec      = record.New[taskqueue.Lease]()
	revocationCodec = record.New[taskqueue.Revocation]()
	siteCodec       = record.New[taskqueue.SiteRecord]()
	pilotCodec      = record.New[taskqueue.PilotRecord]()
	grantCodec      = record.New[taskqueue.Grant]()
)

// records reads blobs in the first column.
func records[T any](t *tx, codec record.Codec[T], sql string, values ...driver.Value) ([]T, error) {
	return appendRecords(nil, t, codec, sql, values...)
}

func appendRecords[T any](found []T, t *tx, codec record.Codec[T], sql string, values ...driver.Value) ([]T, error) {
	err := t.read(sql, func(row []driver.Value) (err error) {
		found, err = appendDecoded(found, t, codec, row[0].([]byte))
		return err
	}, values...)
	return found, err
}

// load reads one record for each key, absent ones left out.
func load[T any, K ~string](t *tx, codec record.Codec[T], sql string, keys []K) (found []T, err error) {
	for _, key := range keys {
		if found, err = appendRecords(found, t, codec, sql, string(key)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func appendDecoded[T any](found []T, t *tx, codec record.Codec[T], blob []byte) ([]T, error) {
	var zero T
	found = append(found, zero)
	if err := codec.Decode(blob, &found[len(found)-1]); err != nil {
		return nil, t.damaged(err)
	}
	return found, nil
}

// damaged tells that a record cannot be what was written.
func (t *tx) damaged(err error) error {
	return t.fail(fmt.Errorf("%w: %s: restore the folder from a backup: %w", ErrDamaged, t.conn.path, err))
}
