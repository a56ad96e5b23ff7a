package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// maxReply bounds one answer of the queue to a tool.
const maxReply = 256 << 20

// reconnect makes a tool that waits for the queue see its return soon; by
// default pauses grow to two minutes.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 10 * time.Second,
}

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
	conn, err := grpc.NewClient("passthrough:///"+access.Queue[0],
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithPerRPCCredentials(bearer{access}),
		grpc.WithConnectParams(reconnect),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
	)
	if err != nil {
		return nil, fmt.Errorf("open the connection to the queue: %w", err)
	}
	return &clients{
		address: access.Queue[0], conn: conn, tasks: pb.NewTaskServiceClient(conn), files: pb.NewFileServiceClient(conn),
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

type bearer struct{ access *identity.AccessFile }

// GetRequestMetadata satisfies credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.access.Token}, nil
}

// RequireTransportSecurity satisfies credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return true }

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
