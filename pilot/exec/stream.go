package exec

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// stream takes one output stream of a payload from a pipe: the first cap bytes
// go to a file, made with the first byte, and the end is kept in memory. What
// is beyond the cap is read and dropped, so the payload never waits nor fails.
type stream struct {
	path   string
	cap    int64
	log    *slog.Logger
	writer int // the payload's end of the pipe, -1 once closed
	reader *os.File
	done   chan struct{}

	// Owned by drain until done is closed.
	file  *os.File
	total int64 // bytes that came
	tail  []byte
	fault error // of the file: it then holds less, the tail is complete

	kept atomic.Int64 // bytes in the file
}

// drainPatience bounds the wait for the end of a pipe when all descendants are
// gone: somebody else may have been handed its writing end.
const drainPatience = time.Second

// buffers are shared by all streams: most payloads are short and silent.
var buffers = sync.Pool{New: func() any { buffer := make([]byte, 32<<10); return &buffer }}

func (a *attempt) openStreams() (stdout, stderr *stream, err error) {
	limit := a.runner.cfg.Logs.Stream
	if disk := a.diskLimit(); disk > 0 {
		limit = min(limit, disk+1) // enough to show that the task is over it
	}
	open := func(kind Stream) (*stream, error) {
		return openStream(a.runner.logs.path(a.name, kind), int64(limit), a.log)
	}
	if stdout, err = open(Stdout); err != nil {
		return nil, nil, err
	}
	if stderr, err = open(Stderr); err != nil {
		stdout.closeWriter()
		stdout.finish()
		return nil, nil, err
	}
	a.streams = []*stream{stdout, stderr}
	return stdout, stderr, nil
}

func openStream(path string, limit int64, log *slog.Logger) (*stream, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("pipe for the payload's output: %w", err)
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, fmt.Errorf("pipe for the payload's output: %w", err)
	}
	s := &stream{
		path: path, cap: limit, log: log, writer: ends[1],
		reader: os.NewFile(uintptr(ends[0]), "payload output"), done: make(chan struct{}),
	}
	go s.drain()
	return s, nil
}

func (s *stream) closeWriter() {
	if s.writer >= 0 {
		unix.Close(s.writer)
		s.writer = -1
	}
}

func (s *stream) drain() {
	defer close(s.done)
	borrowed := buffers.Get().(*[]byte)
	defer buffers.Put(borrowed)
	for {
		n, err := s.reader.Read(*borrowed)
		if n > 0 {
			s.take((*borrowed)[:n])
		}
		if err != nil {
			return // the end, or given up by finish
		}
	}
}

func (s *stream) take(data []byte) {
	s.total += int64(len(data))
	s.tail = append(s.tail, data...)
	if len(s.tail) > 2*task.LogTail {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-task.LogTail:]...)
	}
	if room := s.cap - s.kept.Load(); room > 0 {
		s.store(data[:min(int64(len(data)), room)])
	}
}

// store appends to the file. A full disk costs the log, not the payload.
func (s *stream) store(data []byte) {
	if s.fault != nil {
		return
	}
	if s.file == nil {
		if s.fault = os.MkdirAll(filepath.Dir(s.path), 0o700); s.fault != nil {
			return
		}
		if s.file, s.fault = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); s.fault != nil {
			return
		}
	}
	n, err := s.file.Write(data)
	s.kept.Add(int64(n))
	s.fault = err
}

// finish waits for the end of the stream, completes the file and returns the
// tail, at most task.LogTail bytes.
func (s *stream) finish() []byte {
	_ = s.reader.SetReadDeadline(time.Now().Add(drainPatience)) // pipes have deadlines
	<-s.done
	s.tail = s.tail[max(0, len(s.tail)-task.LogTail):]
	if s.total > s.kept.Load() && s.fault == nil {
		s.closeGap()
	}
	if s.fault != nil {
		s.log.Warn("the log of a payload is not complete", "file", s.path, "error", s.fault)
	}
	if s.file != nil {
		s.fault = errors.Join(s.fault, s.file.Close())
	}
	s.reader.Close()
	return s.tail
}

// closeGap ends a capped file with a notice and the end of the stream.
func (s *stream) closeGap() {
	beyond := s.total - s.kept.Load()
	end := s.tail[max(0, int64(len(s.tail))-beyond):]
	missing := beyond - int64(len(end))
	s.log.Warn("the output of a payload was capped", "file", s.path, "bytes", s.total, "kept", s.cap)
	s.store(fmt.Appendf(nil, "\n[pilot: the stream has %d bytes, beyond %s a pilot keeps only the end: %d bytes are left out here]\n",
		s.total, task.Bytes(s.cap), missing))
	s.store(end)
}
