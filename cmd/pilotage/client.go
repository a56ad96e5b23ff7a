package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/dial"
	"github.com/pilotage-grid/pilotage/identity/issuer"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// clients are the queue's services for one access file.
type clients struct {
	address string
	bearer  bool // it shows a token of the user's own, which is renewed now and then
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
	if access.Role == identity.RoleBearer {
		if own, err := issuer.Discover(a.getenv); err != nil {
			return nil, coded(exitRefused, "%w", err)
		} else if own == "" {
			return nil, coded(exitRefused, "this access file is for who has a token of another issuer, and none was found: "+
				"give one in BEARER_TOKEN, in the file that BEARER_TOKEN_FILE names, or in $XDG_RUNTIME_DIR/bt_u%[1]d or /tmp/bt_u%[1]d of your own", os.Geteuid())
		}
	}
	c, err := connectShowing(access, func() string { return a.token(access) })
	if err == nil {
		c.bearer = access.Role == identity.RoleBearer
	}
	return c, err
}

// token is what a call shows: the access file's, or the user's own token as it is by
// now, since those are renewed while a command waits.
func (a *app) token(access *identity.AccessFile) string {
	if access.Role != identity.RoleBearer {
		return access.Token
	}
	own, err := issuer.Discover(a.getenv)
	if err != nil {
		a.out.note("%s\n", err)
	}
	return own
}

// connectWith opens the queue with the token of an access file.
func connectWith(access *identity.AccessFile) (*clients, error) {
	return connectShowing(access, func() string { return access.Token })
}

func connectShowing(access *identity.AccessFile, token func() string) (*clients, error) {
	config, err := identity.QueueClientTLS([]byte(access.CAPEM), "", nil)
	if err != nil {
		return nil, usage(err)
	}
	conn, err := dial.Queue(access.Queue, config, token)
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
	err = run(c)
	if c.bearer {
		err = tokenRefused(err)
	}
	return notReached(c.address, err)
}

// tool makes a command that asks the queue, with the arguments that its Use line
// names.
func (a *app) tool(use, short string, run func(ctx context.Context, c *clients, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: asUsed, RunE: func(command *cobra.Command, args []string) error {
		return a.withQueue(func(c *clients) error { return run(command.Context(), c, args) })
	}}
}

// pageSize is how many rows a tool asks for at a time.
const pageSize = 1000

// printWhole asks for a whole list and prints it, to people with a row for each element.
func printWhole[Q proto.Message, R interface{ GetNextPageToken() string }, T any](
	ctx context.Context, o *console, call func(context.Context, Q, ...grpc.CallOption) (R, error), request Q, of func(R) []T, header []string, row func(T) []any,
) error {
	list, err := everyPage(ctx, call, request, of)
	if err != nil {
		return err
	}
	return printList(o, list, header, row)
}

// everyPage asks for a whole list, page by page.
func everyPage[Q proto.Message, R interface{ GetNextPageToken() string }, T any](
	ctx context.Context, call func(context.Context, Q, ...grpc.CallOption) (R, error), request Q, of func(R) []T,
) (list []T, err error) {
	fields, set := request.ProtoReflect().Descriptor().Fields(), request.ProtoReflect().Set
	set(fields.ByName("page_size"), protoreflect.ValueOfInt32(pageSize))
	for {
		page, err := call(ctx, request)
		list = append(list, of(page)...)
		if err != nil || page.GetNextPageToken() == "" {
			return list, err
		}
		set(fields.ByName("page_token"), protoreflect.ValueOfString(page.GetNextPageToken()))
	}
}
