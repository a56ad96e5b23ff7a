package agent

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// Config says how a pilot runs, in groups. Zero fields take what the batch system,
// the node or the defaults say; see Complete.
type Config struct {
	NodeConfig
	LifeConfig
	NetworkConfig
	PayloadConfig
	SeamConfig

	Access  *identity.AccessFile
	Version string
	// Journal is a file for what this pilot's master was told and assigned, for
	// a replay; empty is none.
	Journal string
	Log     *slog.Logger

	acceptance *matcher.Acceptance
}

// NodeConfig is what the pilot uses of its worker node, and when.
type NodeConfig struct {
	// Folder holds cache, work and logs.
	Folder string
	// SharedCache is a folder whose cache this pilot has together with others of the
	// node; empty is none.
	SharedCache string
	// Capacity of the cache; 0 is the default of package disk.
	Capacity task.Bytes
	// Slots is how many payloads run at once.
	Slots int
	// Resources that payloads may use in all.
	Resources task.Resources
	Features  []string
	// Host names the worker node: pilots of one host share its faults.
	Host string
	// Accept is the pilot's own policy on when it takes new work, as
	// matcher.CompileAcceptance reads it; "" is always.
	Accept string
	// Records is the folder for what ran on the node; see NodeRecord.
	Records string
	// CheckCommand is the VO's own check; empty is none.
	CheckCommand string
}

// LifeConfig is how long the pilot lives.
type LifeConfig struct {
	// Lifetime of the pilot, Margin before its end in which it drains, Grace
	// that running payloads get when it is told to stop.
	Lifetime time.Duration
	Margin   time.Duration
	Grace    time.Duration
	// Idle ends the pilot when it had nothing to do for so long; 0 is never.
	Idle time.Duration
	// BatchJob is the batch system's id of this pilot's job.
	BatchJob string
}

// NetworkConfig is how others reach the pilot.
type NetworkConfig struct {
	// PortRange "LOW-HIGH" for the pilot's two ports; empty is ephemeral.
	PortRange string
	// Advertise is an address or a CIDR; empty is the interface that reaches
	// the queue.
	Advertise string
	Overlay   dht.Config
}

// PayloadConfig is what payloads may do and see.
type PayloadConfig struct {
	exec.Guests
	// PayloadUser is the account of payloads of a pilot that runs as root: a name,
	// or UID:GID.
	PayloadUser string
}

// SeamConfig is what a pilot is put together with.
type SeamConfig struct {
	// Ground is what the pilot stands on; nil is the worker node that it runs on.
	Ground Ground
	// Carrier carries the bytes between pilots; nil stands for TCP.
	Carrier node.Carrier
	// ToQueue are further options of the connection to the queue.
	ToQueue []grpc.DialOption
	// Observer, if set, is told what happens.
	Observer Observer
	// Ready is called once the pilot is a member of its site.
	Ready func(id task.PilotID, site task.Site)
}

// defaults of a pilot.
const (
	defaultLifetime = 24 * time.Hour
	// batchMargin is kept free at the end of a batch job for the farewell.
	batchMargin  = 5 * time.Minute
	defaultGrace = 15 * time.Second // batch systems kill 30 s after SIGTERM; see life.go
)

// Complete fills in what was not said: from Slurm's variables where they are
// set, else from the node.
func (c *Config) Complete(getenv func(string) string, now time.Time) error {
	if c.Slots == 0 {
		c.Slots = runtime.NumCPU()
		if text := getenv("SLURM_CPUS_ON_NODE"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("SLURM_CPUS_ON_NODE is %q, not a number of CPUs: give --slots", text)
			}
			c.Slots = n
		}
	}
	if c.Slots < 1 || c.Slots > task.MaxCores {
		return fmt.Errorf("slots is %d: give 1 to %d", c.Slots, task.MaxCores)
	}
	if c.Lifetime == 0 {
		c.Lifetime = defaultLifetime
		if text := getenv("SLURM_JOB_END_TIME"); text != "" {
			seconds, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("SLURM_JOB_END_TIME is %q, not seconds since 1970: give --lifetime", text)
			}
			c.Lifetime = time.Unix(seconds, 0).Sub(now) - batchMargin
			if c.Lifetime <= 0 {
				return fmt.Errorf("the batch job ends in %s, which leaves no time for work: ask the batch system for more than %s",
					time.Unix(seconds, 0).Sub(now).Round(time.Second), batchMargin)
			}
		}
	}
	if c.Lifetime < 0 || c.Margin < 0 || c.Grace < 0 || c.Idle < 0 {
		return fmt.Errorf("lifetime is %s, drain %s, grace %s, idle %s: times cannot be negative", c.Lifetime, c.Margin, c.Grace, c.Idle)
	}
	if c.Margin >= c.Lifetime {
		return fmt.Errorf("a pilot that lives %s cannot drain for %s: no time is left for work", c.Lifetime, c.Margin)
	}
	if _, err := node.ParsePortRange(c.PortRange); err != nil {
		return err
	}
	var err error
	if c.acceptance, err = matcher.CompileAcceptance(c.Accept); err != nil {
		return err
	}
	if c.Margin == 0 {
		c.Margin = min(c.Lifetime/10, batchMargin)
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Resources.Cores == 0 {
		c.Resources.Cores = c.Slots
	}
	if c.Resources.Memory == 0 {
		c.Resources.Memory = nodeMemory(getenv)
	}
	if c.Records == "" {
		c.Records = filepath.Join(cmp.Or(c.Folder, filepath.Dir(DefaultFolder(getenv, "x"))), "records")
	}
	if c.GPUs == nil {
		c.GPUs = nodeGPUs(getenv)
	}
	if c.Resources.GPUs = len(c.GPUs); c.Resources.GPUs > task.MaxGPUs {
		return fmt.Errorf("%d GPUs: name at most %d", c.Resources.GPUs, task.MaxGPUs)
	}
	if c.BatchJob == "" {
		c.BatchJob = batchJob(getenv)
	}
	if c.Host == "" {
		c.Host = hostName(getenv)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}

// brief says what a pilot that lives short will not get; empty if it lives long enough
// for any task.
func (c *LifeConfig) brief() string {
	if c.Lifetime-c.Margin > matcher.UnknownRun {
		return ""
	}
	return fmt.Sprintf("it takes tasks for %s only: it gets none but those that ask for less walltime or whose kind is known to run shorter; give --lifetime more than %s for others",
		c.Lifetime-c.Margin, matcher.UnknownRun+c.Margin)
}

// batchJob is what the batch system calls the job: Slurm, Grid Engine, PBS, ARC.
func batchJob(getenv func(string) string) string {
	for _, name := range []string{"PILOTAGE_BATCH_JOB", "SLURM_JOB_ID", "JOB_ID", "PBS_JOBID", "GRID_GLOBAL_JOBID"} {
		if id := getenv(name); id != "" {
			return task.Brief(id)
		}
	}
	return ""
}

// hostName is what Slurm calls the worker node, else what it calls itself.
func hostName(getenv func(string) string) string {
	if name := getenv("SLURMD_NODENAME"); name != "" {
		return name
	}
	name, _ := os.Hostname()
	return name
}

// nodeMemory is what Slurm grants, else what the node has.
func nodeMemory(getenv func(string) string) task.Bytes {
	if megabytes, err := strconv.ParseInt(getenv("SLURM_MEM_PER_NODE"), 10, 64); err == nil && megabytes > 0 {
		return task.Bytes(megabytes) * task.MiB
	}
	if memory, err := systemMemory(); err == nil {
		return memory
	}
	return 2 * task.GiB
}

// nodeGPUs are the devices that the batch system grants, else those of the node
// that NVIDIA's driver lists.
func nodeGPUs(getenv func(string) string) (devices []string) {
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"} {
		granted := getenv(name)
		if granted == "NoDevFiles" { // Slurm's word for none
			return nil
		}
		if granted != "" {
			return strings.Split(granted, ",")
		}
	}
	entries, _ := os.ReadDir("/proc/driver/nvidia/gpus")
	for i := range entries {
		devices = append(devices, strconv.Itoa(i))
	}
	return devices
}

// DefaultFolder is where a pilot keeps its files when --cache does not say:
// INTERFACE names it.
func DefaultFolder(getenv func(string) string, id string) string {
	base := getenv("SLURM_TMPDIR")
	if base == "" {
		base = getenv("TMPDIR")
	}
	if base == "" {
		base = os.TempDir()
	}
	return filepath.Join(base, fmt.Sprintf("pilotage-%d", os.Getuid()), id)
}
