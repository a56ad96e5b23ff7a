package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrDamaged tells that the database is not what was written.
var ErrDamaged = errors.New("the queue's database is damaged: stop the queue and restore it from a backup (docs/operations.md)")

var errGap = errors.New("the rows before it are missing")

// damagedAt tells what is wrong with the block that begins at a key.
func damagedAt(key []byte, err error) error {
	if len(key) == 0 {
		return fmt.Errorf("%w: the last rows are missing", ErrDamaged)
	}
	return fmt.Errorf("%w: table %s, block %q: %w", ErrDamaged, Table(key[0]), key[1:], err)
}

func lost(found, seen uint64) error {
	return fmt.Errorf("%w: it ends with commit %d, and commit %d was acknowledged: its log is lost or damaged, or it is another one: put a backup in the place of all its files, or move the whole folder away to begin with a new VO", ErrDamaged, found, seen)
}

// total is about all blocks. One that is back to an earlier value shows in it.
type total struct {
	commits uint64
	blocks  uint64
	sum     uint64 // of the blocks' checksums
}

func (t *total) add(sum uint32)    { t.blocks, t.sum = t.blocks+1, t.sum+uint64(sum) }
func (t *total) remove(sum uint32) { t.blocks, t.sum = t.blocks-1, t.sum-uint64(sum) }

// format is that of blocks and rows. It rises with every change that an older
// program could not live with.
const format = 1

var headKey = []byte{byte(head)}

func readTotal(r Transaction) (found total, err error) {
	err = r.Scan(Span{}, func(row Row) (bool, error) {
		if !bytes.Equal(row.Key, headKey) {
			return false, fmt.Errorf("%w: its first row is missing", ErrDamaged)
		}
		value, _, err := unseal(row)
		if err != nil {
			return false, damagedAt(headKey, err)
		}
		at := parts{rest: value}
		if written := at.number(); written != format {
			return false, fmt.Errorf("the queue's database was written by another pilotage (format %d, this one knows %d): run that release or a later one", written, format)
		}
		found = total{at.number(), at.number(), at.number()}
		return false, at.err
	})
	return found, err
}

// seal writes what has changed and the sum of all blocks, and returns the number
// of the commit, which is that of the last one if nothing has changed.
func (b *blocks) seal() (commit uint64, err error) {
	before := b.total
	if err := b.flush(); err != nil || b.total == before {
		return b.total.commits, err
	}
	b.total.commits++
	value, _ := seal(headKey, number(uint64(format)).number(b.total.commits).number(b.total.blocks).number(b.total.sum))
	return b.total.commits, b.in.Put(Row{headKey, value})
}

// Verify reads all blocks and says what is damaged: blocks that do not fit their
// checksums, that are missing, or that are of another time. It returns how many it read.
func (s *Store) Verify(ctx context.Context) (blocks int, err error) {
	var found total
	var wrong []error
	err = s.view(ctx, func(r Transaction) error {
		want, err := readTotal(r)
		if err != nil {
			return err
		}
		lower := firstKey
		err = r.Scan(Span{From: firstKey}, func(row Row) (bool, error) {
			blocks++
			x, err := decodeBlock(row)
			if err != nil {
				wrong = append(wrong, damagedAt(row.Key, err))
				lower = nil
				return true, ctx.Err()
			}
			if lower != nil && !bytes.Equal(lower, row.Key) {
				wrong = append(wrong, damagedAt(row.Key, errGap))
			}
			found.add(binary.BigEndian.Uint32(row.Value[len(row.Value)-checksumSize:]))
			lower = x.upper
			return true, ctx.Err()
		})
		if err != nil {
			return err
		}
		if lower != nil && want.blocks > 0 {
			wrong = append(wrong, damagedAt(nil, nil))
		}
		if found.commits = want.commits; len(wrong) == 0 && found != want {
			wrong = append(wrong, fmt.Errorf("%w: of its %d blocks some are of another time", ErrDamaged, blocks))
		}
		return nil
	})
	return blocks, errors.Join(append(wrong, err)...)
}

// Rows counts what each table holds.
func (s *Store) Rows(ctx context.Context) (map[string]int, error) {
	rows := make(map[string]int)
	err := s.view(ctx, func(r Transaction) error {
		return r.Scan(Span{From: firstKey}, func(row Row) (bool, error) {
			x, err := decodeBlock(row)
			if err != nil {
				return false, damagedAt(row.Key, err)
			}
			for i := range x.rows {
				rows[Table(x.rows[i].Key[0]).String()]++
			}
			return true, ctx.Err()
		})
	})
	return rows, err
}
