package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// reader reads the records of a journal.
type reader struct {
	header Header
	from   *bufio.Reader
}

// open reads the header.
func open(from io.Reader) (*reader, error) {
	r := &reader{from: bufio.NewReader(from)}
	var format int
	var version string
	if _, err := fmt.Fscanf(r.from, firstLine, &format, &version); err != nil {
		return nil, fmt.Errorf("this is no journal of a pilot, or one of a version before format 3: %w", err)
	}
	if format != Format {
		return nil, fmt.Errorf("the journal has format %d, this version reads %d: read it with pilotage %s, which wrote it", format, Format, version)
	}
	if err := r.next(&r.header); err != nil {
		return nil, fmt.Errorf("read the header of the journal: %w", err)
	}
	return r, nil
}

// next reads one value, of which the length goes before it.
func (r *reader) next(value any) error {
	length, err := binary.ReadUvarint(r.from)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(r.from, int64(min(length, 1<<40))))
	if err == nil && uint64(len(data)) < length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	return records.Decode(data, value)
}

// each passes the records on, and tells whether the last one is cut off.
func (r *reader) each(take func(record) error) (cut bool, err error) {
	for {
		var next record
		err := r.next(&next)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return !errors.Is(err, io.EOF), nil
		}
		if err == nil {
			err = take(next)
		}
		if err != nil {
			return false, err
		}
	}
}
