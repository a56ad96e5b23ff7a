package server

import (
	"context"
	"errors"
	"strconv"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// doubtsAtOnce bounds the looks at copies that people doubt.
const doubtsAtOnce = 4

// DoubtCopy looks at a copy that somebody found bad: a word alone strikes nothing.
func (h *fileHandlers) DoubtCopy(ctx context.Context, in *pb.DoubtCopyRequest) (*pb.DoubtCopyResponse, error) {
	var file task.File
	var element, name string
	err := h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		found := taskqueue.Read(t.Files().Load(task.LFN(in.GetLfn())))
		if len(found) == 0 || found[0].ProducerTask == "" {
			return taskqueue.NotFound("output", strconv.Quote(in.GetLfn()))
		}
		file = found[0].File
		taskqueue.Check(callerOf(ctx).seesFile(t, file.LFN))
		at := file.ReplicaAt(in.GetUrl())
		if at < 0 {
			return taskqueue.NotFound("copy", strconv.Quote(in.GetUrl()))
		}
		sites, err := t.Sites().Load(file.Replicas[at].Site)
		if err != nil || len(sites) == 0 {
			return err
		}
		element = sites[0].SE
		name, _ = taskqueue.NameAt(element, in.GetUrl())
		return nil
	})
	if err != nil {
		return nil, err
	}
	if name == "" || h.server.config.Finder == nil {
		return &pb.DoubtCopyResponse{Reason: "it is at no place that the queue reads"}, nil
	}
	select {
	case h.server.doubts <- struct{}{}:
		defer func() { <-h.server.doubts }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch _, err := (&elements{h.server.turns, &h.server.config}).find(ctx, element, name, &file); {
	case err == nil:
		return &pb.DoubtCopyResponse{}, nil
	case !errors.Is(err, ErrNotThere):
		return &pb.DoubtCopyResponse{Reason: err.Error()}, nil
	}
	out := &pb.DoubtCopyResponse{}
	err = h.server.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		out.Struck, err = h.server.turns.rules.Strike(t, file, in.GetUrl())
		return err
	})
	if out.Struck {
		h.server.config.Log.Warn("a copy on a storage element is lost or damaged, as a user found and the queue has seen: it is stored or made again",
			"file", in.GetLfn(), "url", in.GetUrl())
	}
	return out, err
}
