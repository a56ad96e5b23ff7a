package storage

import (
	"context"
	"errors"
	"io"
)

// bounded reads content of an announced size: neither more nor, silently,
// less. Without an announced size left is the most that is accepted.
type bounded struct {
	reader io.Reader
	closer func() error
	left   int64
	known  bool
	fail   func(error) error // names the operation
	stop   func() error      // not nil once the caller's context has ended
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.stop(); err != nil {
		return 0, err
	}
	if b.left == 0 && b.known {
		return 0, io.EOF
	}
	if b.left == 0 { // one byte more tells whether this is the end
		p = p[:min(1, len(p))]
	}
	n, err := b.reader.Read(p[:min(int64(len(p)), max(b.left, 1))])
	if b.left == 0 && n > 0 {
		return 0, b.fail(errors.New("it sends more than is accepted from a server that does not announce a size"))
	}
	b.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case b.stop() != nil:
		return n, b.stop()
	case err == io.EOF && (!b.known || b.left == 0):
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, b.fail(err)
}

func (b *bounded) Close() error { return b.closer() }

// untilEnded stops reading when its context ends.
type untilEnded struct {
	ctx context.Context
	io.Reader
}

func (r untilEnded) Read(p []byte) (int, error) {
	if err := ended(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
