package main

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Looking up files serves better messages only, the queue refuses unknown ones
// anyway: so it neither takes long nor costs many calls.
const (
	catalogueLookups  = 100
	cataloguePatience = 5 * time.Second
)

// catalogue tells which files are registered, so that an unknown one is told
// with its place in the workflow file.
type catalogue struct {
	ctx     context.Context
	cancel  context.CancelFunc
	connect func() (*clients, error)
	clients *clients
	asked   map[string]bool
}

func (a *app) openCatalogue(ctx context.Context) *catalogue {
	ctx, cancel := context.WithTimeout(ctx, cataloguePatience)
	return &catalogue{ctx: ctx, cancel: cancel, connect: a.connect, asked: make(map[string]bool)}
}

// has tells whether a file is registered; one that cannot be looked up is
// taken for registered.
func (c *catalogue) has(name string) bool {
	if known, asked := c.asked[name]; asked {
		return known
	}
	if len(c.asked) >= catalogueLookups {
		return true
	}
	if c.clients == nil {
		opened, err := c.connect()
		if err != nil {
			return true
		}
		c.clients = opened
	}
	_, err := c.clients.files.LocateFile(c.ctx, &pb.LocateFileRequest{Lfn: name})
	s, refused := statusOf(err)
	c.asked[name] = !refused || s.Code() != codes.NotFound
	return c.asked[name]
}

func (c *catalogue) close() {
	c.cancel()
	if c.clients != nil {
		c.clients.close()
	}
}
