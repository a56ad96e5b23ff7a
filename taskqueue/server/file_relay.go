package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

const (
	// maxRelays bounds the files that pass through the queue at once; of each a
	// few messages are in memory.
	maxRelays = 16
	// relaysOfOne bounds those of one identity: a client that never reads keeps its place.
	relaysOfOne = 4
	// askAgain is when a site is asked again for a file that none of its pilots
	// has begun to send.
	askAgain = 15 * time.Second
	// relayLook is the time between two looks at whether a file may still come.
	relayLook = 2 * time.Second
)

// relays pass files that only caches have from pilots to clients
// (docs/decisions/0012-files-through-the-queue.md). Nothing is kept: a pilot sends
// as fast as the client reads.
type relays struct {
	mutex sync.Mutex
	last  uint64
	open  map[string]*relay
}

// relay is a client that waits for a file.
type relay struct {
	id    string
	party string // whose client it is
	site  task.Site
	file  task.File
	asked time.Time
	taken bool            // a pilot sends it
	data  chan []byte     // closed at the end
	why   error           // why the end came early; set before data is closed
	gone  <-chan struct{} // the client does not wait any more
}

// begin enters a client.
func (r *relays) begin(party string, site task.Site, file task.File, gone <-chan struct{}) (*relay, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	own := 0
	for _, w := range r.open {
		if w.party == party {
			own++
		}
	}
	if own >= relaysOfOne {
		return nil, fmt.Errorf("%w: %d files pass through the queue to you already: try again", taskqueue.ErrLimit, own)
	}
	if len(r.open) >= maxRelays {
		return nil, fmt.Errorf("%w: %d files pass through the queue already: try again", taskqueue.ErrLimit, maxRelays)
	}
	if r.open == nil {
		r.open = make(map[string]*relay)
	}
	r.last++
	w := &relay{id: strconv.FormatUint(r.last, 10), party: party, site: site, file: file, data: make(chan []byte), gone: gone}
	r.open[w.id] = w
	return w, nil
}

func (r *relays) end(w *relay) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.open, w.id)
}

// ask lists what a site's pilots are to send, each file once in a while until one
// of them begins.
func (r *relays) ask(site task.Site) (wanted []task.WantedFile) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, w := range r.open {
		if w.site == site && !w.taken && time.Since(w.asked) >= askAgain {
			w.asked = time.Now()
			wanted = append(wanted, task.WantedFile{ID: w.id, File: w.file})
		}
	}
	return wanted
}

// take gives a pilot of a site the client that it sends to; nil if there is none
// any more.
func (r *relays) take(id string, site task.Site) *relay {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	w := r.open[id]
	if w == nil || w.site != site || w.taken {
		return nil
	}
	w.taken = true
	return w
}

// FetchFile gives a client a file that only caches have.
func (h *fileHandlers) FetchFile(in *pb.FetchFileRequest, stream grpc.ServerStreamingServer[pb.FetchFileResponse]) error {
	ctx := stream.Context()
	var file task.File
	if err := h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		found, err := callerOf(ctx).file(t, task.LFN(in.GetLfn()))
		if err == nil {
			file = found.File
		}
		return err
	}); err != nil {
		return err
	}
	if len(file.Announced) == 0 {
		return fmt.Errorf("%w: no pilot's cache has %s", taskqueue.ErrConflict, file.LFN.Local())
	}
	w, err := h.server.relays.begin(callerOf(ctx).party(), file.Announced[0], file, ctx.Done())
	if err != nil {
		return err
	}
	defer h.server.relays.end(w)
	h.server.masters.desk.WakeSite(w.site)
	came, look := time.Now(), time.NewTicker(relayLook)
	defer look.Stop()
	if err := h.hopeless(ctx, w, came); err != nil {
		return err
	}
	sent := make(chan error, 1)
	for from := w.data; ; {
		select {
		case data, more := <-from:
			if !more {
				return w.why
			}
			came, from = time.Now(), nil
			// A client that does not read holds it up until the stream ends.
			go func() { sent <- stream.Send(&pb.FetchFileResponse{Data: data}) }()
		case err := <-sent:
			if err != nil {
				return err
			}
			came, from = time.Now(), w.data
		case <-look.C:
			if from == nil && time.Since(came) >= h.server.config.Timing.RelayPatience {
				return fmt.Errorf("%w: nothing of %s was taken for too long", taskqueue.ErrConflict, w.file.LFN.Local())
			}
			if err := h.hopeless(ctx, w, came); err != nil {
				return err
			}
		case <-h.server.stopping:
			return errStopping
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hopeless says why a file will not come: its client is no longer let in, nothing of it
// has come for long, or its site is not heard.
func (h *fileHandlers) hopeless(ctx context.Context, w *relay, came time.Time) error {
	if err := h.server.access.recheck(callerOf(ctx), time.Now()); err != nil {
		return err
	}
	if waited := time.Since(came); waited >= h.server.config.Timing.RelayPatience {
		return fmt.Errorf("%w: no pilot of site %s sends %s for %s", taskqueue.ErrConflict, w.site, w.file.LFN.Local(), waited.Round(time.Second))
	}
	return h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		found := taskqueue.Read(t.Sites().Load(w.site))
		if len(found) == 0 || t.Clock.Sub(found[0].LastHeard()) >= h.server.config.Timing.RelaySilence {
			return fmt.Errorf("%w: only caches of site %s have %s, and none of its pilots is heard", taskqueue.ErrConflict, w.site, w.file.LFN.Local())
		}
		return nil
	})
}

// SendFile takes a file that a client waits for.
func (h *pilotHandlers) SendFile(stream grpc.ClientStreamingServer[pb.SendFileRequest, pb.SendFileResponse]) error {
	ctx := stream.Context()
	c := callerOf(ctx)
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	w := h.server.relays.take(first.GetId(), c.site)
	if w == nil {
		return taskqueue.NotFound("wait", strconv.Quote(first.GetId()))
	}
	w.why = h.pass(ctx, w, first, stream.Recv)
	close(w.data)
	if w.why != nil {
		return w.why
	}
	return stream.SendAndClose(&pb.SendFileResponse{})
}

// pass hands on what a pilot sends, no more than the file has.
func (h *pilotHandlers) pass(ctx context.Context, w *relay, message *pb.SendFileRequest, next func() (*pb.SendFileRequest, error)) error {
	if failure := message.GetFailure(); failure != "" {
		return fmt.Errorf("%w: pilot %s cannot send %s: %.1000s", taskqueue.ErrConflict, callerOf(ctx).pilot, w.file.LFN.Local(), failure)
	}
	for sent := task.Bytes(0); ; {
		data := message.GetData()
		if sent += task.Bytes(len(data)); w.file.Size >= 0 && sent > w.file.Size {
			return status.Errorf(codes.DataLoss, "pilot %s sends more than %s has", callerOf(ctx).pilot, w.file.LFN.Local())
		}
		if len(data) > 0 {
			select {
			case w.data <- data:
			case <-w.gone:
				return context.Canceled
			case <-h.server.stopping:
				return errStopping
			}
		}
		var err error
		if message, err = next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return status.Errorf(codes.Unavailable, "pilot %s has broken off: %v", callerOf(ctx).pilot, err)
		}
	}
}
