package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/internal/shell"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/pilot/workernode"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// runFile tells scripts where a running trial is.
const runFile = "run.json"

// devSites are the sites of a trial.
var devSites = []string{"siteA", "siteB"}

func newDev(a *app) *cobra.Command {
	var dir string
	var pilots, slots int
	command := &cobra.Command{
		Use: "dev", Short: "Run a queue, two sites and their pilots in this process, to try things out", Args: asUsed,
		RunE: func(c *cobra.Command, _ []string) error { return a.dev(c.Context(), dir, pilots, slots) },
	}
	flags := command.Flags()
	flags.StringVar(&dir, "dir", "", "folder for everything (default: a temporary one, removed at the end)")
	flags.IntVar(&pilots, "pilots", 2, "pilots per site")
	flags.IntVar(&slots, "slots", 1, "slots per pilot")
	return command
}

func (a *app) dev(ctx context.Context, dir string, pilots, slots int) error {
	log, err := a.logger(slog.LevelWarn)
	if err != nil {
		return err
	}
	if pilots < 1 || slots < 1 {
		return coded(exitUsage, "--pilots and --slots are at least 1")
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "pilotage-dev-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	defer func() { _ = os.Remove(filepath.Join(dir, runFile)) }()
	var queue *server.Server
	client := storage.NewClient(storage.Options{Secrets: func() task.StorageSecrets { return queue.Secrets() }})
	defer client.Close()
	ready := make(chan [2]string, 1)
	queue, err = server.New(server.Config{
		DataDir: filepath.Join(dir, "queue"), Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0", Web: server.WebConfig{Version: version}, Log: log, Deleter: storageOf{client}, Finder: storageOf{client},
		Ready: func(grpcAddress, httpAddress string) { ready <- [2]string{grpcAddress, httpAddress} },
	})
	if err != nil {
		return err
	}
	// Pilots leave first: the queue outlives them to hear their goodbyes.
	queueContext, stopQueue := context.WithCancel(context.WithoutCancel(ctx))
	defer stopQueue()
	group := errgroup.Group{}
	group.Go(func() error { return queue.Run(queueContext) })
	pilotsErr := a.devPilots(ctx, dir, pilots, slots, ready, log)
	stopQueue()
	if err := group.Wait(); err != nil {
		return err
	}
	return pilotsErr
}

// devPilots adds the sites and runs their pilots until ctx ends.
func (a *app) devPilots(ctx context.Context, dir string, pilots, slots int, ready <-chan [2]string, log *slog.Logger) error {
	var addresses [2]string
	select {
	case addresses = <-ready:
	case <-ctx.Done():
		return nil
	}
	data := filepath.Join(dir, "queue")
	if err := addDevSites(ctx, dir); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	joined := make(chan task.PilotID, pilots*len(devSites))
	for _, site := range devSites {
		for n := range pilots {
			group.Go(func() error {
				access, err := identity.ReadAccessFile(filepath.Join(data, "access", "pilot-"+site+".json"))
				if err != nil {
					return err
				}
				payloads := ""
				if os.Geteuid() == 0 {
					payloads = cmp.Or(a.getenv("PILOTAGE_PAYLOAD_USER"), "65534:65534") // nobody
				}
				return workernode.Run(ctx, workernode.Config{
					Config: agent.Config{
						Access: access, Version: version, Log: log,
						NodeConfig:    agent.NodeConfig{Slots: slots},
						LifeConfig:    agent.LifeConfig{Grace: time.Second},
						NetworkConfig: agent.NetworkConfig{Advertise: "127.0.0.1", PortRange: node.DefaultPorts.String()},
						Events: func(event agent.Event) {
							if is, ok := event.(agent.Joined); ok {
								joined <- is.Pilot
							}
						},
					},
					PayloadConfig: workernode.PayloadConfig{PayloadUser: payloads, Guests: exec.Guests{Hidden: []string{data}}},
					Folder:        filepath.Join(dir, "pilots", fmt.Sprintf("%s-%d", site, n)),
				})
			})
		}
	}
	group.Go(func() error {
		for range pilots * len(devSites) {
			select {
			case <-joined:
			case <-ctx.Done():
				return nil
			}
		}
		return a.devReady(dir, addresses)
	})
	return group.Wait()
}

func addDevSites(ctx context.Context, dir string) error {
	access, err := identity.ReadAccessFile(filepath.Join(dir, "queue", "access", "admin.json"))
	if err != nil {
		return err
	}
	c, err := connectWith(access)
	if err != nil {
		return err
	}
	defer c.close()
	for _, site := range devSites {
		folder := filepath.Join(dir, "storage", site)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		_, err := c.sites.AddSite(ctx, &pb.AddSiteRequest{Settings: &pb.SiteSettings{
			Name: site, StorageUrl: storage.FileURL(folder), RemoteRead: true, Mode: pb.SiteMode_SITE_MODE_DISTRIBUTED,
		}})
		if err != nil {
			return fmt.Errorf("add %s: %w", site, err)
		}
	}
	return nil
}

func (a *app) devReady(dir string, addresses [2]string) error {
	run := map[string]string{
		"queue": addresses[0], "http": addresses[1], "access": filepath.Join(dir, "queue", "access", "admin.json"),
	}
	data, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, runFile), append(data, '\n'), 0o600); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out.stdout, "ready queue=%s\n", addresses[0])
	a.out.say("try: PILOTAGE_ACCESS=%s %s submit --wait -- /bin/echo hello\n", shell.Quote(run["access"]), shell.Quote(os.Args[0]))
	return err
}
