package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/task"
)

type pilotFlags struct {
	cache, capacity, memory, disk string
	portRange, advertise          string
	checkCommand, sandbox         string
	journal, accept               string
	slots, cores                  int
	lifetime, grace, margin       time.Duration
	features                      []string
	check, sharedMemory           bool
	readable, writable, gpus      []string
}

func newPilot(a *app) *cobra.Command {
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
refuses the access.`,
		Args: asUsed,
		RunE: func(c *cobra.Command, _ []string) error { return a.runPilot(c, f) },
	}
	flags := command.Flags()
	flags.StringVar(&f.cache, "cache", "", "pilot folder (default under $SLURM_TMPDIR, $TMPDIR or the system temporary folder)")
	flags.StringVar(&f.capacity, "cache-size", "", "bytes in the cache, e.g. 50GiB (default 20GiB, at most 80 % of the free disk)")
	flags.IntVar(&f.slots, "slots", 0, "payloads at once (default $SLURM_CPUS_ON_NODE, else the CPUs)")
	flags.IntVar(&f.cores, "cores", 0, "cores for payloads in all (default: slots)")
	flags.StringVar(&f.memory, "memory", "", "memory for payloads in all (default $SLURM_MEM_PER_NODE, else the node's)")
	flags.StringVar(&f.disk, "disk", "", "disk for work folders in all (default: what the cache leaves free)")
	flags.StringSliceVar(&f.gpus, "gpus", nil, "devices for payloads, each for one at a time, e.g. 0,1 or none (default $CUDA_VISIBLE_DEVICES, else $ROCR_VISIBLE_DEVICES, else what NVIDIA's driver lists)")
	flags.DurationVar(&f.lifetime, "lifetime", 0, "how long to live (default until $SLURM_JOB_END_TIME less 5m, else 24h)")
	flags.DurationVar(&f.margin, "drain", 0, "time before the end in which no new task is taken (default a tenth of the lifetime, at most 5m)")
	flags.DurationVar(&f.grace, "grace", 0, "time for running payloads after SIGTERM (default 15s)")
	flags.StringVar(&f.portRange, "port-range", "", "LOW-HIGH for the two ports (default: any free port)")
	flags.StringVar(&f.advertise, "advertise", "", "address or CIDR under which other pilots reach this one (default: the interface that reaches the queue)")
	flags.StringSliceVar(&f.features, "feature", nil, "what the node has, for requirements, e.g. --feature avx2 (repeatable)")
	flags.StringVar(&f.accept, "accept", "", "when this pilot takes new work: a CEL expression over load, free_memory, free_disk, hour, minute, weekday and now, e.g. 'load < 0.5 && (hour >= 20 || hour < 6)' (default: always; docs/policies.md)")
	flags.StringVar(&f.checkCommand, "check-cmd", "", "the VO's own check; a failure keeps the pilot from taking work")
	flags.StringVar(&f.journal, "journal", "", "new file for what this pilot is told and assigns while it is master, for pilotage sim replay")
	flags.StringVar(&f.sandbox, "sandbox", "auto", "auto confines payloads where the kernel can, off never does")
	flags.StringSliceVar(&f.readable, "readable", nil, "folder that confined payloads may read though it lies in a home or temporary folder, e.g. /home/vo/software (repeatable)")
	flags.StringSliceVar(&f.writable, "writable", nil, "further folder that confined payloads may write (repeatable)")
	flags.BoolVar(&f.sharedMemory, "shm", false, "let confined payloads use /dev/shm")
	flags.BoolVar(&f.check, "check", false, "check disk, clock, ports, storage element, --check-cmd and --accept, and exit")
	command.AddCommand(newPilotList(a), completeNames(a, newPilotShow(a), pilotNames), completeNames(a, newPilotDrain(a), pilotNames))
	return command
}

func (a *app) runPilot(c *cobra.Command, f *pilotFlags) error {
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
	config := agent.Config{
		Access: access, Version: version, Folder: f.cache, Slots: f.slots, Features: f.features, Lifetime: f.lifetime,
		Margin: f.margin, Grace: f.grace, PortRange: f.portRange, Advertise: f.advertise, CheckCommand: f.checkCommand, Log: log, Journal: f.journal,
		Resources: task.Resources{Cores: f.cores}, Readable: f.readable, Writable: f.writable, SharedMemory: f.sharedMemory,
		Accept: f.accept,
	}
	if f.gpus != nil {
		config.GPUs = slices.DeleteFunc(f.gpus, func(device string) bool { return device == "none" })
	}
	for _, size := range []struct {
		flag, text string
		into       *task.Bytes
	}{
		{"--cache-size", f.capacity, &config.Capacity},
		{"--memory", f.memory, &config.Resources.Memory},
		{"--disk", f.disk, &config.Resources.Disk},
	} {
		if size.text == "" {
			continue
		}
		if *size.into, err = task.ParseBytes(size.text); err != nil {
			return coded(exitUsage, "%s: %w", size.flag, err)
		}
	}
	switch f.sandbox {
	case "auto":
	case "off":
		config.SandboxOff = true
	default:
		return coded(exitUsage, "--sandbox is %q: give auto or off", f.sandbox)
	}
	if err := f.validate(access); err != nil {
		return usage(err)
	}
	if err := config.Complete(a.getenv, time.Now()); err != nil {
		return usage(err)
	}
	if f.check {
		return a.checkPilot(c, config)
	}
	if path, err := identity.ResolveAccessPath(a.access, a.getenv); err == nil {
		config.Hidden = append(config.Hidden, path)
	}
	config.Ready = func(id task.PilotID, site task.Site) {
		_, _ = fmt.Fprintf(a.stdout, "ready pilot=%s site=%s\n", id, site)
	}
	err = agent.Run(c.Context(), config)
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

// validate refuses values of flags that only the start would stumble over.
func (f *pilotFlags) validate(access *identity.AccessFile) error {
	for _, value := range []struct {
		flag     string
		negative bool
	}{
		{"--slots", f.slots < 0}, {"--cores", f.cores < 0}, {"--lifetime", f.lifetime < 0}, {"--drain", f.margin < 0}, {"--grace", f.grace < 0},
	} {
		if value.negative {
			return fmt.Errorf("%s is negative", value.flag)
		}
	}
	if f.advertise == "" {
		return nil
	}
	if _, err := node.AdvertiseAddress(access.Queue[0], f.advertise); err != nil {
		return fmt.Errorf("--advertise: %w", err)
	}
	return nil
}

func (a *app) checkPilot(c *cobra.Command, config agent.Config) error {
	findings, err := agent.Check(c.Context(), config)
	if err != nil {
		return err
	}
	if err := c.Context().Err(); err != nil { // what failed, failed for that
		return err
	}
	bad := 0
	rows := [][]string{}
	for _, finding := range findings {
		verdict := "ok"
		if !finding.OK {
			verdict = "FAILED"
			bad++
		}
		rows = append(rows, []string{finding.What, verdict, finding.Detail})
	}
	if err := a.print(findings, []string{"CHECK", "RESULT", "DETAIL"}, rows); err != nil {
		return err
	}
	if bad > 0 {
		return coded(exitUnfit, "%d of %s failed: this node would take no work", bad, task.Counted(len(findings), "check"))
	}
	return nil
}
