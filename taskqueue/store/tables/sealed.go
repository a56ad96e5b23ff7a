package tables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged tells that the database is not what was written.
var ErrDamaged = errors.New("the queue's database is damaged")

// sealSize is how many bytes of checksum stand behind each value.
const sealSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal is the checksum of a row: of its table, key and value.
func seal(table Table, key, value []byte) uint32 {
	var head [5]byte
	head[0] = byte(table)
	binary.BigEndian.PutUint32(head[1:], uint32(len(key)))
	return crc32.Update(crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, key), castagnoli, value)
}

// open returns the value of a row whose checksum fits.
func open(table Table, key, sealed []byte) ([]byte, error) {
	end := len(sealed) - sealSize
	if end < 0 || binary.BigEndian.Uint32(sealed[end:]) != seal(table, key, sealed[:end]) {
		return nil, fmt.Errorf("%w: a row of table %s does not fit its checksum: restore the folder from a backup", ErrDamaged, Names[table])
	}
	return sealed[:end:end], nil
}

// total sums up all rows. A row that is missing, or back to an earlier value,
// shows in it.
type total struct {
	rows uint64
	sum  uint64 // of the rows' checksums
}

func (t *total) add(seal uint32)    { t.rows, t.sum = t.rows+1, t.sum+uint64(seal) }
func (t *total) remove(seal uint32) { t.rows, t.sum = t.rows-1, t.sum-uint64(seal) }

// Verify reads every row and compares it with its checksum, and all together
// with their sum. It returns the number of rows, and what it found as
// ErrDamaged.
func (s *Store) Verify(ctx context.Context) (rows uint64, err error) {
	err = s.engine.View(ctx, func(r Rows) error {
		t := &tx{rows: r, readOnly: true}
		var found total
		for table := range totals {
			err := t.scan(table, Span{}, func(row Row) (bool, error) {
				found.add(seal(table, row.Key, row.Value))
				return true, ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		rows = found.rows
		want, err := t.readTotal()
		if err == nil && want != found {
			err = fmt.Errorf("%w: it has %d rows where %d were written, or some are of another time: restore the folder from a backup", ErrDamaged, found.rows, want.rows)
		}
		return err
	})
	return rows, err
}
