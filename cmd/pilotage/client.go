package main

import (
	"strings"

	"google.golang.org/grpc"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/dial"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// clients are the queue's services for one access file.
type clients struct {
	address string
	conn    *grpc.ClientConn
	tasks   pb.TaskServiceClient
	files   pb.FileServiceClient
	sites   pb.SiteServiceClient
	pilots  pb.PilotServiceClient
}

func (c *clients) close() { _ = c.conn.Close() }

func (a *app) readAccess() (*identity.AccessFile, error) {
	path, err := identity.ResolveAccessPath(a.access, a.getenv)
	if err != nil {
		return nil, usage(err)
	}
	access, err := identity.ReadAccessFile(path)
	if err != nil {
		return nil, accessError(err)
	}
	return access, nil
}

// connect opens the queue for a tool.
func (a *app) connect() (*clients, error) {
	access, err := a.readAccess()
	if err != nil {
		return nil, err
	}
	return connectWith(access)
}

func connectWith(access *identity.AccessFile) (*clients, error) {
	config, err := identity.QueueClientTLS([]byte(access.CAPEM), "", nil)
	if err != nil {
		return nil, usage(err)
	}
	conn, err := dial.Queue(access.Queue, config, func() string { return access.Token })
	if err != nil {
		return nil, usage(err)
	}
	return &clients{
		address: strings.Join(access.Queue, ", "), conn: conn, tasks: pb.NewTaskServiceClient(conn), files: pb.NewFileServiceClient(conn),
		sites: pb.NewSiteServiceClient(conn), pilots: pb.NewPilotServiceClient(conn),
	}, nil
}

// withQueue runs a tool against the queue.
func (a *app) withQueue(run func(*clients) error) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.close()
	return notReached(c.address, run(c))
}

// pageSize is how many rows a tool asks for at a time.
const pageSize = 1000

// pages asks for every page of a list.
func pages(next func(token string) (string, error)) error {
	token := ""
	for {
		var err error
		if token, err = next(token); err != nil || token == "" {
			return err
		}
	}
}
