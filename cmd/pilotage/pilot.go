package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/pilot/workernode"
	"github.com/pilotage-grid/pilotage/task"
)

// pilotFlags are the settings of a pilot, and what its flags say otherwise.
type pilotFlags struct {
	config  workernode.Config
	sandbox string
	gpus    []string
	check   bool
}

func (a pilotCommands) group() *cobra.Command {
	f := &pilotFlags{}
	command := &cobra.Command{
		Use:   "pilot",
		Short: "Run a pilot, as a batch job does; see also pilot list",
		Long: `A pilot registers with the task queue, joins its site's network and runs tasks
until its lifetime ends, then leaves. It needs this binary and one access file:
no root, no shared file system. Slots, lifetime and cache folder come from
Slurm's variables when they are set; so does the name of its node
($SLURMD_NODENAME, else the host name), by which pilots of one node share its
faults.

Exit codes: 0 after an orderly end, also on SIGTERM; 1 when this node failed
the self-check, with and without --check, or something broke; 2 for flags or an
access file that are no good; 3 when the queue cannot be reached; 4 when it
refuses the access; 8 when another pilot uses the folder or a journal is there.`,
		Args: asUsed,
		RunE: func(c *cobra.Command, _ []string) error { return a.runPilot(c, f) },
	}
	flags := command.Flags()
	flags.StringVar(&f.config.Folder, "cache", "", "pilot folder (default under $SLURM_TMPDIR, $TMPDIR or the system temporary folder)")
	flags.StringVar(&f.config.SharedCache, "shared-cache", "", "folder whose cache this pilot has together with all others of its account and node that name it (default: a cache of its own in the pilot folder)")
	flags.Var(sizeFlag{&f.config.Capacity}, "cache-size", "bytes in the cache, e.g. 50GiB (default 20GiB, at most 80 % of its share of the free disk)")
	flags.IntVar(&f.config.Slots, "slots", 0, "payloads at once (default $SLURM_CPUS_ON_NODE, else the CPUs)")
	flags.IntVar(&f.config.Resources.Cores, "cores", 0, "cores for payloads in all (default: slots)")
	flags.Var(sizeFlag{&f.config.Resources.Memory}, "memory", "memory for payloads in all (default $SLURM_MEM_PER_NODE, else the node's)")
	flags.Var(sizeFlag{&f.config.Resources.Disk}, "disk", "disk for work folders in all (default: what the cache leaves of its share of the free disk, by cores)")
	flags.StringSliceVar(&f.gpus, "gpus", nil, "devices for payloads, each for one at a time, e.g. 0,1 or none (default $CUDA_VISIBLE_DEVICES, else $ROCR_VISIBLE_DEVICES, else what NVIDIA's driver lists)")
	flags.DurationVar(&f.config.Lifetime, "lifetime", 0, "how long to live (default until $SLURM_JOB_END_TIME less 5m, else 24h)")
	flags.DurationVar(&f.config.Margin, "drain", 0, "time before the end in which no new task is taken (default a tenth of the lifetime, at most 5m)")
	flags.DurationVar(&f.config.Grace, "grace", 0, "time for running payloads after SIGTERM (default 15s)")
	flags.DurationVar(&f.config.Idle, "idle", 0, "end after so long without anything to do (default never)")
	flags.StringVar(&f.config.PortRange, "port-range", node.DefaultPorts.String(), "LOW-HIGH for the two ports, which payloads cannot connect to on any machine; 0: any free port, as where none of the default range is free")
	flags.StringVar(&f.config.Advertise, "advertise", "", "address or CIDR under which other pilots reach this one (default: the interface that reaches the queue)")
	flags.StringSliceVar(&f.config.Features, "feature", nil, "what the node has, for requirements, e.g. --feature avx2 (repeatable)")
	flags.StringVar(&f.config.Accept, "accept", "", "when this pilot takes new work: a CEL expression over load, free_memory, free_disk, hour, minute, weekday and now, e.g. 'load < 0.5 && (hour >= 20 || hour < 6)' (default: always; docs/policies.md)")
	flags.StringVar(&f.config.CheckCommand, "check-cmd", "", "the VO's own check; a failure keeps the pilot from taking work")
	flags.StringVar(&f.config.Journal, "journal", "", "new file for what this pilot is told and assigns while it is master, for pilotage sim replay")
	flags.StringVar(&f.config.Records, "records", "", "folder of this node for what ran here and when, for the site's admin: pilotage site trace --folder (default: records/ in the pilot folder, or beside it where that ends with the pilot)")
	flags.StringVar(&f.sandbox, "sandbox", "auto", "what confines payloads at most: auto (namespaces where the node can, else landlock), landlock, or off")
	flags.StringVar(&f.config.Container, "container", "", "folder of an unpacked image, e.g. /cvmfs/unpacked.cern.ch/..., in which payloads run: it is their root, read-only (default: the node's)")
	flags.StringSliceVar(&f.config.Images, "images", nil, "folder in which images may lie that tasks name as their container (repeatable; default /cvmfs; none: no task names one)")
	flags.Var(&f.config.Network, "payload-network", "what payloads reach: host (what the node does, but for TCP ports of the queue and of pilots where Landlock ABI 4 is there), all (those, too), none (an empty network) or ports=80,443,1094 (TCP connections to these only)")
	flags.StringSliceVar(&f.config.Readable, "readable", nil, "folder that confined payloads may read though it lies in a home or temporary folder, e.g. /home/vo/software (repeatable)")
	flags.StringSliceVar(&f.config.Writable, "writable", nil, "further folder that confined payloads may write (repeatable)")
	flags.StringVar(&f.config.PayloadUser, "payload-user", "", "account of payloads of a pilot that root has started, a name or UID:GID (default $PILOTAGE_PAYLOAD_USER; without one such a pilot does not run)")
	flags.BoolVar(&f.config.TrustPayloads, "trust-payloads", false, "give payloads hard links to cached files, which they can change for others: only where one user's payloads run")
	flags.BoolVar(&f.config.SharedMemory, "shm", false, "let confined payloads use the node's /dev/shm (default: in namespaces they have one of their own, below none)")
	flags.BoolVar(&f.check, "check", false, "check disk, clock, ports, storage element, --check-cmd and --accept, and exit")
	command.AddCommand(append(a.completed(pilotNames, a.show(), a.drain()), a.list())...)
	return command
}

func (a pilotCommands) runPilot(c *cobra.Command, f *pilotFlags) error {
	log, err := a.logger(slog.LevelInfo)
	if err != nil {
		return err
	}
	access, err := a.readAccess()
	if err != nil {
		return err
	}
	if access.Role != identity.RolePilot {
		return coded(exitRefused, "the access file is for role %s: a pilot needs the file of its site, access/pilot-SITE.json", access.Role)
	}
	config := f.config
	config.Access, config.Version, config.Log = access, version, log
	if f.gpus != nil {
		config.GPUs = slices.DeleteFunc(f.gpus, func(device string) bool { return device == "none" })
	}
	switch f.sandbox {
	case "auto":
	case "off":
		config.Sandbox = exec.Off
	case "landlock":
		config.Sandbox = exec.OnlyLandlock
	default:
		return coded(exitUsage, "--sandbox is %q: give auto, landlock or off", f.sandbox)
	}
	if err := validatePilot(config); err != nil {
		return usage(err)
	}
	if config.PayloadUser == "" && os.Geteuid() == 0 {
		config.PayloadUser = a.getenv("PILOTAGE_PAYLOAD_USER")
	}
	if err := config.Complete(a.getenv, time.Now()); err != nil {
		return usage(err)
	}
	if _, err := workernode.PayloadAccount(config.PayloadUser); err != nil {
		return usage(err)
	}
	if f.check {
		return a.checkPilot(c, config)
	}
	if path, err := identity.ResolveAccessPath(a.access, a.getenv); err == nil {
		config.Hidden = append(config.Hidden, path)
	}
	config.Events = func(event agent.Event) {
		if joined, ok := event.(agent.Joined); ok {
			_, _ = fmt.Fprintf(a.out.stdout, "ready pilot=%s site=%s\n", joined.Pilot, joined.Site)
		}
	}
	err = workernode.Run(c.Context(), config)
	var journal *agent.JournalError
	switch {
	case errors.Is(err, agent.ErrUnfit):
		return coded(exitUnfit, "%w", err)
	case errors.As(err, &journal) && errors.Is(err, fs.ErrExist):
		return coded(exitConflict, "--journal: %w", err)
	case errors.As(err, &journal):
		return coded(exitUsage, "--journal: %w", err)
	}
	return err
}

// sizeFlag is a flag for a size; 0 is not given.
type sizeFlag struct{ size *task.Bytes }

// String satisfies pflag.Value.
func (s sizeFlag) String() string {
	if s.size == nil || *s.size == 0 {
		return ""
	}
	return s.size.String()
}

// Set satisfies pflag.Value.
func (s sizeFlag) Set(text string) (err error) {
	if *s.size = 0; text != "" {
		*s.size, err = task.ParseBytes(text)
	}
	return err
}

// Type satisfies pflag.Value.
func (s sizeFlag) Type() string { return "string" }

// validatePilot refuses values of flags that only the start would stumble over.
func validatePilot(config workernode.Config) error {
	for flag, value := range map[string]time.Duration{
		"--slots": time.Duration(config.Slots), "--cores": time.Duration(config.Resources.Cores),
		"--lifetime": config.Lifetime, "--drain": config.Margin, "--grace": config.Grace, "--idle": config.Idle,
	} {
		if value < 0 {
			return fmt.Errorf("%s is negative", flag)
		}
	}
	if config.Advertise == "" {
		return nil
	}
	if _, err := node.AdvertiseAddress(config.Access.Queue[0], config.Advertise); err != nil {
		return fmt.Errorf("--advertise: %w", err)
	}
	return nil
}

func (a pilotCommands) checkPilot(c *cobra.Command, config workernode.Config) error {
	findings, err := workernode.Check(c.Context(), config)
	if err != nil {
		return err
	}
	if err := c.Context().Err(); err != nil { // what failed, failed for that
		return err
	}
	bad, err := a.out.printFindings(findings)
	if err != nil {
		return err
	}
	if bad > 0 {
		return coded(exitUnfit, "%d of %s failed: this node would take no work", bad, task.Counted(len(findings), "check"))
	}
	return nil
}
