package live

import (
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
	chunks  []chunk
	held    int  // bytes in the chunks
	ended   bool // the writer has said all
	deaf    bool // the reader wants no more
	broken  bool
	readBy  time.Time
	writeBy time.Time
	lastDue time.Time
}

// chunk is what one write brought.
type chunk struct {
	bytes []byte
	due   time.Time // when it arrives; zero: at once
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
			f.wait(f.readBy, time.Time{})
		case len(f.chunks) == 0 && f.ended:
			return 0, io.EOF
		case len(f.chunks) == 0:
			f.wait(f.readBy, time.Time{})
		case !f.chunks[0].due.IsZero() && time.Now().Before(f.chunks[0].due):
			f.wait(f.readBy, f.chunks[0].due)
		default:
			return f.take(p), nil
		}
	}
}

// take copies what has arrived; the mutex is held.
func (f *flow) take(p []byte) int {
	first := &f.chunks[0]
	n := copy(p, first.bytes)
	first.bytes = first.bytes[n:]
	if len(first.bytes) == 0 {
		f.chunks[0] = chunk{}
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
			f.wait(f.writeBy, time.Time{})
		default:
			f.put(p)
			return len(p), nil
		}
	}
}

// put adds a chunk that arrives after the carrier's latency, in order; the
// mutex is held.
func (f *flow) put(p []byte) {
	if len(p) == 0 {
		return
	}
	var due time.Time
	if delay := f.from.carrier.delay(); delay > 0 {
		due = time.Now().Add(delay)
		if due.Before(f.lastDue) {
			due = f.lastDue
		}
		f.lastDue = due
	}
	f.chunks = append(f.chunks, chunk{bytes: append([]byte(nil), p...), due: due})
	f.held += len(p)
	f.changed.Broadcast()
}

// wait sleeps until something changes or one of two moments comes, of which
// zero means never; the mutex is held.
func (f *flow) wait(moments ...time.Time) {
	for _, moment := range moments {
		if !moment.IsZero() {
			defer time.AfterFunc(time.Until(moment), f.rouse).Stop()
		}
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
