package journal

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
)

// records are those of a journal that is being read.
type records struct {
	header  Header
	decoder *gob.Decoder
}

// open reads the header.
func open(from io.Reader) (*records, error) {
	r := &records{decoder: gob.NewDecoder(bufio.NewReader(from))}
	if err := r.decoder.Decode(&r.header); err != nil {
		return nil, fmt.Errorf("this is no journal of a pilot: %w", err)
	}
	if r.header.Format != Format {
		return nil, fmt.Errorf("the journal has format %d, this version reads %d: read it with pilotage %s, which wrote it",
			r.header.Format, Format, r.header.Version)
	}
	return r, nil
}

// each passes the records on, and tells whether the last one is cut off.
func (r *records) each(take func(record) error) (cut bool, err error) {
	for {
		var next record
		err := r.decoder.Decode(&next)
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
