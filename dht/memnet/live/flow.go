package live

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// window bounds, in bytes, what one direction of a stream holds before its
// writer waits, as a multiplexer's window and the buffers of TCP do.
const window = 1 << 20

// flow is one direction of a stream. Safe for concurrent use.
type flow struct {
	from, to *station

	mutex   sync.Mutex
	changed sync.Cond
	chunks  [][]byte // what each write brought
	held    int      // bytes in the chunks
	ended   bool     // the writer has said all
	deaf    bool     // the reader wants no more
	broken  bool
	readBy  time.Time
	writeBy time.Time
}

func newFlow(from, to *station) *flow {
	f := &flow{from: from, to: to}
	f.changed.L = &f.mutex
	return f
}

// frozen tells whether bytes stand still because one of the ends hangs.
func (f *flow) frozen() bool { return f.from.hung.Load() || f.to.hung.Load() }

func (f *flow) read(p []byte) (int, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for {
		switch {
		case f.broken:
			return 0, network.ErrReset
		case f.deaf:
			return 0, io.EOF
		case passed(f.readBy):
			return 0, os.ErrDeadlineExceeded
		case f.frozen():
			f.wait(f.readBy)
		case len(f.chunks) == 0 && f.ended:
			return 0, io.EOF
		case len(f.chunks) == 0:
			f.wait(f.readBy)
		default:
			return f.take(p), nil
		}
	}
}

// take copies what has arrived; the mutex is held.
func (f *flow) take(p []byte) int {
	n := copy(p, f.chunks[0])
	f.chunks[0] = f.chunks[0][n:]
	if len(f.chunks[0]) == 0 {
		f.chunks[0] = nil
		if f.chunks = f.chunks[1:]; len(f.chunks) == 0 {
			f.chunks = nil // an idle stream holds no memory
		}
	}
	if f.held >= window {
		f.changed.Broadcast()
	}
	f.held -= n
	return n
}

func (f *flow) write(p []byte) (int, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for {
		switch {
		case f.broken:
			return 0, network.ErrReset
		case f.ended:
			return 0, io.ErrClosedPipe
		case passed(f.writeBy):
			return 0, os.ErrDeadlineExceeded
		case f.deaf:
			return len(p), nil
		case f.held >= window:
			f.wait(f.writeBy)
		default:
			f.put(p)
			return len(p), nil
		}
	}
}

// put adds a chunk; the mutex is held.
func (f *flow) put(p []byte) {
	if len(p) == 0 {
		return
	}
	f.chunks = append(f.chunks, bytes.Clone(p))
	f.held += len(p)
	f.changed.Broadcast()
}

// wait sleeps until something changes or a moment comes, of which zero means never;
// the mutex is held.
func (f *flow) wait(until time.Time) {
	if !until.IsZero() {
		defer time.AfterFunc(time.Until(until), f.rouse).Stop()
	}
	f.changed.Wait()
}

func (f *flow) rouse() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.changed.Broadcast()
}

// change sets something about the flow and wakes whoever waits on it.
func (f *flow) change(set func(*flow)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	set(f)
	f.changed.Broadcast()
}

func (f *flow) end() { f.change(func(f *flow) { f.ended = true }) }

func (f *flow) shut() {
	f.change(func(f *flow) { f.deaf, f.chunks, f.held = true, nil, 0 })
}

func (f *flow) tear() {
	f.change(func(f *flow) { f.broken, f.chunks, f.held = true, nil, 0 })
}

func passed(deadline time.Time) bool {
	return !deadline.IsZero() && !time.Now().Before(deadline)
}
