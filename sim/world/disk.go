package world

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// disk is a model of the disk below the queue's tables. What a commit has synced
// stays; a commit that is under way when the power fails is there as a whole or not
// at all, as SQLite's log has it. It is full, does not sync, or rots, when it is told
// to. Its small file beside the map (tables.Witness) is never synced.
type disk struct {
	synced *mem.Engine
	seen   uint64 // the last commit that the file beside the map has
	full   bool   // writes fail
	sick   bool   // syncs fail
	power  powerCut
}

// powerCut tells when the power of the queue's machine fails.
type powerCut uint8

const (
	noCut      powerCut = iota
	beforeSync          // of the next commit
	afterSync           // of the next commit, before anybody is answered
)

var (
	errPower = errors.New("the power of the queue's machine has failed")
	errFull  = errors.New("no space left on the queue's disk")
	errSync  = errors.New("the queue's disk does not sync")
)

func newDisk() *disk { return &disk{synced: mem.NewEngine()} }

// copied is what a backup has.
func (d *disk) copied() *disk { return &disk{synced: d.synced.Copy(), seen: d.seen} }

// Begin satisfies tables.Engine.
func (d *disk) Begin(write bool) (tables.Transaction, error) {
	in, err := d.synced.Begin(write)
	return &writing{in, d}, err
}

// Close satisfies tables.Engine.
func (d *disk) Close() error { return nil }

// Read satisfies tables.Witness.
func (d *disk) Read() (uint64, error) { return d.seen, nil }

// Write satisfies tables.Witness.
func (d *disk) Write(commit uint64) { d.seen = commit }

// writing is a transaction of the disk.
type writing struct {
	tables.Transaction
	disk *disk
}

// Commit satisfies tables.Transaction.
func (w *writing) Commit() error {
	d := w.disk
	switch cut := d.power; {
	case d.full:
		return errFull
	case d.sick:
		return errSync
	case cut == noCut:
		return w.Transaction.Commit()
	case cut == afterSync:
		if err := w.Transaction.Commit(); err != nil {
			return err
		}
	}
	return errPower
}

// rot flips a bit of the n-th row that the disk holds, and tells which table it is in;
// "" if there is none.
func (d *disk) rot(n, bit int) (table string) {
	in, err := d.synced.Begin(true)
	if err != nil {
		return ""
	}
	var rows []tables.Row
	_ = in.Scan(tables.Span{}, func(row tables.Row) (bool, error) {
		rows = append(rows, row)
		return true, nil
	})
	if len(rows) == 0 {
		return ""
	}
	row := rows[n%len(rows)]
	row.Value = slices.Clone(row.Value)
	row.Value[bit/8%len(row.Value)] ^= 1 << (bit % 8)
	if err := errors.Join(in.Put(row), in.Commit()); err != nil {
		return ""
	}
	return fmt.Sprint(tables.Table(row.Key[0]))
}
