package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity/issuer"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

func (a queueCommands) group() *cobra.Command {
	config := server.Config{}
	verify, issuers, keep := false, "", false
	config.Rules = taskqueue.DefaultConfig()
	config.Rules.Site.Pilot.Protocol = node.Protocol
	retain := &config.Rules.Retain
	command := &cobra.Command{
		Use: "taskqueue", Short: "Run the VO's task queue", Args: asUsed,
		Long: `The task queue keeps workflows, tasks and files, and hands tasks to sites.
At its first start it makes its own authority and the access files of its data
folder: access/admin.json, access/submit.json, and access/pilot-SITE.json for
each site that is added.

With --verify it does not start: it reads the whole database of a queue that does
not run, compares it with its checksums, and says what is damaged. Exit codes: 0
all is as it was written, 6 it is damaged, 5 there is no database, 8 a queue runs
on the folder, or its port is in use.`,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.logger(slog.LevelInfo)
			if err != nil {
				return err
			}
			if keep {
				retain.Intermediates = 0
			}
			config.Log, config.Web.Version = log, version
			if err := checkListening(&config); err != nil {
				return err
			}
			if config.DataDir == "" {
				config.DataDir = stateFolder(a.getenv, "queue")
			}
			if verify {
				return a.verifyQueue(c.Context(), config.DataDir)
			}
			if issuers != "" {
				if config.Issuers, err = issuer.Read(issuers); err != nil {
					return usage(err)
				}
			}
			var queue *server.Server
			client := storage.NewClient(storage.Options{Secrets: func() task.StorageSecrets { return queue.Secrets() }})
			defer client.Close()
			config.Deleter, config.Finder = storageOf{client}, storageOf{client}
			config.Ready = func(grpcAddress, _ string) {
				_, _ = fmt.Fprintf(a.out.stdout, "ready queue=%s\n", grpcAddress)
				if err := tellServiceManager(a.getenv, "READY=1"); err != nil {
					log.Warn("the service manager cannot be told that the queue is ready", "error", err)
				}
			}
			if queue, err = openQueue(c.Context(), config); err != nil {
				return err
			}
			stopping := context.AfterFunc(c.Context(), func() { _ = tellServiceManager(a.getenv, "STOPPING=1") }) // for people only
			defer stopping()
			return queue.Run(c.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.DataDir, "data", "", "data folder (default $XDG_STATE_HOME/pilotage/queue)")
	flags.StringVar(&config.Listen, "listen", server.DefaultListen, "HOST:PORT of gRPC")
	flags.StringVar(&config.ListenHTTP, "listen-http", server.DefaultListenHTTP, "HOST:PORT of the live page, /metrics and /healthz")
	flags.StringVar(&config.Web.Certificate, "http-cert", "", "PEM file with the certificate for --listen-http (default: issued by the VO's own authority)")
	flags.StringVar(&config.Web.Key, "http-key", "", "PEM file with the key of --http-cert")
	flags.StringSliceVar(&config.Advertise, "advertise", nil, "HOST or HOST:PORT that access files name (default: this machine's addresses)")
	flags.StringSliceVar(&config.Hosts, "host", nil, "further names for the server's certificate")
	flags.StringVar(&issuers, "issuers", "", "file that names the issuers of WLCG tokens or SciTokens that are taken (docs/access.md)")
	flags.Var(&config.Rules.Site.Pilot.MinConfinement, "min-confinement", "how strictly pilots of all sites have to confine payloads to be let in: NONE, LANDLOCK, NAMESPACES or CONTAINER; site add --min-confinement asks for more at one site")
	flags.Var((*days)(&retain.Workflows), "retain", "delete workflows that have been over for this time, e.g. 90d, but for their final outputs (default: never)")
	flags.Var((*days)(&retain.Intermediates), "retain-intermediates", "delete copies of files that are no final outputs this long after their workflow is DONE")
	flags.BoolVar(&keep, "keep-intermediates", false, "never delete them")
	flags.BoolVar(&verify, "verify", false, "read the whole database and say what is damaged, instead of starting")
	command.AddCommand(a.backup(), a.restore(), a.rotation())
	return command
}

// ofFolder makes a command about the data folder of a queue on this machine.
func (a queueCommands) ofFolder(use, short, long string, run func(ctx context.Context, data string, args []string) error) *cobra.Command {
	data := ""
	command := &cobra.Command{Use: use, Short: short, Long: long, Args: asUsed, RunE: func(c *cobra.Command, args []string) error {
		err := run(c.Context(), cmp.Or(data, stateFolder(a.getenv, "queue")), args)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return coded(exitNotFound, "%w", err)
		case errors.Is(err, fs.ErrExist):
			return coded(exitConflict, "%w", err)
		case errors.Is(err, server.ErrDamaged):
			return coded(exitFailed, "%w", err)
		}
		return err
	}}
	command.Flags().StringVar(&data, "data", "", "data folder of the queue (default $XDG_STATE_HOME/pilotage/queue)")
	return command
}

func (a queueCommands) backup() *cobra.Command {
	return a.ofFolder("backup DIR", "Copy the queue's database into a folder, also while the queue runs",
		`Copies the database of a queue on this machine as it is at one moment, also while the
queue runs, into a folder that has none, and reads all of the copy back; and the older
part of the audit log. The copy holds the key of the VO's authority; its files have mode
0600.`,
		func(ctx context.Context, data string, args []string) error {
			into := args[0]
			blocks, err := server.Backup(ctx, data, into)
			if err == nil {
				a.out.say("the backup is in %s: %s, read back and as written\n", into, task.Counted(blocks, "block"))
			}
			return err
		})
}

func (a queueCommands) restore() *cobra.Command {
	return a.ofFolder("restore DIR", "Put a backup in the place of the database of a queue that does not run",
		`Reads all of a backup and puts it in the place of the database of a queue that does
not run; on another machine it begins the queue's folder anew. The database and the audit
log that were there are moved into a folder before-restore-TIME beside it. What happened after the
backup the queue does not know: docs/operations.md says what becomes of it.`,
		func(ctx context.Context, data string, args []string) error {
			blocks, before, err := server.Restore(ctx, args[0], data)
			if err != nil {
				return err
			}
			a.out.say("the backup is restored to %s: %s; start the queue\n", data, task.Counted(blocks, "block"))
			if before != "" {
				a.out.say("what was there is in %s\n", before)
			}
			if server.RemembersRevocations(data) {
				a.out.say("what was revoked and banned after the backup counts again when the queue starts\n")
			} else {
				a.out.say("this folder does not know what was revoked or banned after the backup: do so again before the queue can be reached\n")
			}
			return nil
		})
}

func (a queueCommands) rotation() *cobra.Command {
	force := false
	command := a.ofFolder("rotate-authority", "Change the VO's certificate authority, in three steps, of a queue that does not run",
		`Takes the next of three steps to a new certificate authority of the VO, on the data
folder of a queue that does not run, and says what follows. Start the queue again after
each step.

1. A new authority is made. The queue's access files name both, and pilots that register
   from then on are told of both.
2. The new one signs all certificates, and the key of the old one is deleted.
3. The old one counts no more.

Steps 2 and 3 are refused (exit code 8) while pilots live that registered before the last
step: they would be cut off. docs/access.md says what to do between the steps.`,
		func(ctx context.Context, data string, _ []string) error {
			step, err := server.RotateAuthority(ctx, data, force)
			if errors.Is(err, server.ErrOldPilotsLive) {
				return coded(exitConflict, "%w: drain them or wait for their end, or cut them off with --force", err)
			}
			if err == nil {
				a.out.say("%s\n", rotationSteps[step])
			}
			return err
		})
	command.Flags().BoolVar(&force, "force", false, "take the step although pilots live that it cuts off")
	return command
}

// rotationSteps are what was done by each step of a rotation, and what follows.
var rotationSteps = map[server.RotationStep]string{
	server.AuthorityPublished: "step 1 of 3: there is a new authority, and access files will name it beside the old one.\n" +
		"Start the queue. Give everybody new access files. Then stop the queue and run this again.",
	server.AuthorityChanged: "step 2 of 3: the new authority signs, and the key of the old one is deleted.\n" +
		"Start the queue. When no pilot lives that registered before, stop it and run this again.",
	server.AuthorityDropped: "step 3 of 3: the old authority counts no more. Start the queue.",
}

// verifyQueue says whether the database in a folder is as it was written.
func (a queueCommands) verifyQueue(ctx context.Context, folder string) error {
	blocks, err := server.Verify(ctx, folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return coded(exitNotFound, "%s has no queue's database: %w", folder, err)
	case errors.Is(err, server.ErrDamaged):
		return coded(exitFailed, "%w", err)
	case err != nil:
		return err
	}
	a.out.say("the database in %s is as it was written: %s\n", folder, task.Counted(blocks, "block"))
	return nil
}

// roomPause is the time between two tries to open a queue on a full disk.
const roomPause = 2 * time.Second

// openQueue opens the queue, and waits for room where its disk is so full that
// the database cannot even be read.
func openQueue(ctx context.Context, config server.Config) (*server.Server, error) {
	for waits := 0; ; waits++ {
		queue, err := server.New(config)
		if !errors.Is(err, taskqueue.ErrDiskFull) {
			return queue, err
		}
		if waits == 0 {
			config.Log.Error("the queue's disk is full: it starts when there is room", "folder", config.DataDir, "error", err)
		}
		select {
		case <-time.After(roomPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// stateFolder is where a part of the program keeps what it must not forget.
func stateFolder(getenv func(string) string, part string) string {
	base := getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "."
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "pilotage", part)
}

// storageOf is what the queue sees of storage elements.
type storageOf struct{ client *storage.Client }

// Delete satisfies server.Deleter.
func (e storageOf) Delete(ctx context.Context, at, name string) error {
	element, err := e.client.Element(at)
	if err != nil {
		return err
	}
	return element.Delete(ctx, name)
}

// Find satisfies server.Finder.
func (e storageOf) Find(ctx context.Context, at, name string, size task.Bytes, digest task.Digest) (string, error) {
	url, err := e.client.Find(ctx, at, name, size, digest)
	return url, asFinder(err)
}

// List satisfies server.Finder.
func (e storageOf) List(ctx context.Context, at, folder string, limit int) ([]string, error) {
	names, err := e.client.List(ctx, at, folder, limit)
	return names, asFinder(err)
}

// asFinder puts an error into the words of server.Finder.
func asFinder(err error) error {
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%w: %w", server.ErrNotThere, err)
	case errors.Is(err, storage.ErrUnsupported):
		return fmt.Errorf("%w: %w", server.ErrNotListed, err)
	}
	return err
}

// days is a time that may be given in days.
type days time.Duration

const day = 24 * time.Hour

// String satisfies pflag.Value.
func (d *days) String() string {
	switch t := time.Duration(*d); {
	case t == 0:
		return ""
	case t%day == 0:
		return fmt.Sprintf("%dd", t/day)
	default:
		return t.String()
	}
}

// Set satisfies pflag.Value.
func (d *days) Set(text string) error {
	given, err := parseLife(text)
	*d = days(given)
	return err
}

// Type satisfies pflag.Value.
func (*days) Type() string { return "time" }

// checkListening refuses addresses and certificates with which no queue can listen.
func checkListening(config *server.Config) error {
	if (config.Web.Certificate == "") != (config.Web.Key == "") {
		return coded(exitUsage, "--http-cert and --http-key belong together: give both or none")
	}
	if config.Web.Certificate != "" {
		if _, err := tls.LoadX509KeyPair(config.Web.Certificate, config.Web.Key); err != nil {
			return coded(exitUsage, "--http-cert, --http-key: %w", err)
		}
	}
	for _, address := range []string{config.Listen, config.ListenHTTP} {
		if _, _, err := net.SplitHostPort(address); address != "" && err != nil {
			return coded(exitUsage, "nothing can listen on %q: give HOST:PORT, or :PORT for all addresses of this machine", address)
		}
	}
	return nil
}
