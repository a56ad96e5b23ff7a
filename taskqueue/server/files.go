package server

import (
	"context"
	"slices"
	"strconv"
	"strings"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// fileHandlers serve FileService.
type fileHandlers struct {
	pb.UnimplementedFileServiceServer
	server *Server
}

// RegisterFiles makes external files known to every workflow.
func (h *fileHandlers) RegisterFiles(ctx context.Context, in *pb.RegisterFilesRequest) (*pb.RegisterFilesResponse, error) {
	files, err := taskpb.FromFiles(in.GetFiles())
	if err != nil {
		return nil, invalid("%w", err)
	}
	if err := checkFiles(files); err != nil {
		return nil, err
	}
	n := 0
	err = h.server.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		for i := range files {
			if id := files[i].LFN.Workflow(); id != "" {
				if _, err := callerOf(ctx).changes(t, string(id)); err != nil {
					return notFoundAs(err, "file", files[i].LFN)
				}
			}
		}
		taskqueue.Check(callerOf(ctx).namesCopies(t, files))
		n, err = h.server.turns.rules.RegisterFiles(t, files, in.GetGroup())
		return err
	})
	return &pb.RegisterFilesResponse{Registered: int32(n)}, err
}

// ListFiles lists the catalogue by name.
func (h *fileHandlers) ListFiles(ctx context.Context, in *pb.ListFilesRequest) (*pb.ListFilesResponse, error) {
	size, after, err := pageAsked("files", in)
	if err != nil {
		return nil, err
	}
	out := &pb.ListFilesResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		after, open, room := task.LFN(after), map[task.WorkflowID]bool{}, pageRoom{entries: size}
		caching := sitesWithPilots(t)
		for {
			found := taskqueue.Read(t.Files().List(in.GetPrefix(), after, loadedAtOnce))
			for i := range found {
				id := found[i].LFN.Workflow()
				if _, known := open[id]; !known {
					open[id] = callerOf(ctx).seesFile(t, found[i].LFN) == nil
				}
				if open[id] {
					file := caching.file(found[i].File)
					if !room.takes(file) {
						out.NextPageToken = pageToken("files", string(after))
						return nil
					}
					out.Files = append(out.Files, file)
				}
				after = found[i].LFN
			}
			if len(found) < loadedAtOnce {
				return nil
			}
		}
	})
}

// cachingSites are the sites that have pilots: what others had in caches is gone with
// them, though the catalogue may know it until the next pilot there says so.
type cachingSites map[task.Site]bool

func sitesWithPilots(t *taskqueue.Turn) cachingSites {
	sites := taskqueue.Read(t.Sites().All())
	caching := make(cachingSites, len(sites))
	for i := range sites {
		caching[sites[i].Name] = sites[i].Pilots > 0
	}
	return caching
}

func (c cachingSites) file(f task.File) *pb.File {
	f.Announced = slices.DeleteFunc(slices.Clone(f.Announced), func(site task.Site) bool { return !c[site] })
	return taskpb.File(f)
}

// LocateFile returns a file by its qualified name, or by the name under which
// it is registered for all.
func (h *fileHandlers) LocateFile(ctx context.Context, in *pb.LocateFileRequest) (*pb.LocateFileResponse, error) {
	name := task.LFN(in.GetLfn())
	if name == "" {
		return nil, invalid("no file named")
	}
	names := []task.LFN{name}
	if !strings.HasPrefix(string(name), task.SharedPrefix) {
		names = append(names, task.SharedPrefix+name)
	}
	out := &pb.LocateFileResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		f := taskqueue.Read(callerOf(ctx).file(t, names...))
		caching := sitesWithPilots(t)
		out.File, out.ProducerTask, out.Readers, out.Lost = caching.file(f.File), string(f.ProducerTask), int32(f.Uses), f.Lost
		out.Owner, out.Group = f.Owner, f.Group
		return nil
	})
}

// RemoveFile has the copies of a file go.
func (h *fileHandlers) RemoveFile(ctx context.Context, in *pb.RemoveFileRequest) (*pb.RemoveFileResponse, error) {
	if in.GetLfn() == "" {
		return nil, invalid("no file named")
	}
	name := task.LFN(in.GetLfn())
	if !strings.Contains(in.GetLfn(), ":") {
		name = task.SharedPrefix + name
	}
	gone, err := h.server.turns.remove(ctx, in.GetDryRun(), func(t *taskqueue.Turn) (taskqueue.Removal, error) {
		taskqueue.Check(callerOf(ctx).removesFile(t, name))
		return h.server.turns.rules.RemoveFile(t, name, in.GetDryRun())
	})
	return &pb.RemoveFileResponse{Removal: gone}, err
}

// PlanUpload says where a client may put copies.
func (h *fileHandlers) PlanUpload(ctx context.Context, in *pb.PlanUploadRequest) (*pb.PlanUploadResponse, error) {
	out := &pb.PlanUploadResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		sites := taskqueue.Read(t.Sites().All())
		storage := make(map[string]string, len(sites))
		for i := range sites {
			name := string(sites[i].Name)
			storage[name] = sites[i].SE
			if len(in.GetSites()) == 0 && sites[i].SE != "" && !sites[i].Draining {
				out.Targets = append(out.Targets, &pb.UploadTarget{Site: name, StorageUrl: sites[i].SE})
			}
		}
		for _, name := range in.GetSites() {
			url, known := storage[name]
			switch {
			case !known:
				return taskqueue.NotFound("site", strconv.Quote(name))
			case url == "":
				return invalid("site %s has no storage element: add one with `pilotage site add %s --se URL`", name, name)
			}
			out.Targets = append(out.Targets, &pb.UploadTarget{Site: name, StorageUrl: url})
		}
		return nil
	})
}
