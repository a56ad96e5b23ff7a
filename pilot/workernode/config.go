package workernode

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// Config says how a pilot runs on a worker node. Zero fields take what the batch system,
// the node or the defaults say; see Complete.
type Config struct {
	agent.Config
	PayloadConfig

	// Folder holds cache, work and logs.
	Folder string
	// SharedCache is a folder whose cache this pilot has together with others of the
	// node; empty is none.
	SharedCache string
	// Capacity of the cache; 0 is the default of package disk.
	Capacity task.Bytes
	// Records is the folder for what ran on the node; see NodeRecord.
	Records string
	// Accept is the pilot's own policy on when it takes new work, as
	// matcher.CompileAcceptance reads it; "" is always.
	Accept string
	// CheckCommand is the VO's own check; empty is none.
	CheckCommand string
}

// PayloadConfig is what payloads may do and see.
type PayloadConfig struct {
	exec.Guests
	// PayloadUser is the account of payloads of a pilot that runs as root: a name,
	// or UID:GID.
	PayloadUser string
}

// batchMargin is kept free at the end of a batch job for the farewell.
const batchMargin = 5 * time.Minute

// Complete fills in what was not said: from Slurm's variables where they are
// set, else from the node.
func (c *Config) Complete(getenv func(string) string, now time.Time) (err error) {
	if c.Slots == 0 {
		if c.Slots, err = nodeSlots(getenv); err != nil {
			return err
		}
	}
	if c.Lifetime == 0 {
		if c.Lifetime, err = batchLifetime(getenv, now); err != nil {
			return err
		}
	}
	if c.Began.IsZero() {
		c.Began = now
	}
	if err := c.Config.Complete(); err != nil {
		return err
	}
	policy, err := matcher.CompileAcceptance(c.Accept)
	if err != nil {
		return err
	}
	if c.Accept != "" {
		c.Acceptance = policy
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
	if c.CoreSpeed == 0 {
		c.CoreSpeed = coreSpeed()
	}
	if c.BatchJob == "" {
		c.BatchJob = batchJob(getenv)
	}
	if c.Host == "" {
		c.Host = hostName(getenv)
	}
	return nil
}

// nodeSlots is how many CPUs Slurm grants, else how many the process has.
func nodeSlots(getenv func(string) string) (int, error) {
	text := getenv("SLURM_CPUS_ON_NODE")
	if text == "" {
		return runtime.NumCPU(), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("SLURM_CPUS_ON_NODE is %q, not a number of CPUs: give --slots", text)
	}
	return n, nil
}

// batchLifetime is what Slurm leaves the job; 0 where it does not say.
func batchLifetime(getenv func(string) string, now time.Time) (time.Duration, error) {
	text := getenv("SLURM_JOB_END_TIME")
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("SLURM_JOB_END_TIME is %q, not seconds since 1970: give --lifetime", text)
	}
	left := time.Unix(seconds, 0).Sub(now)
	if left <= batchMargin {
		return 0, fmt.Errorf("the batch job ends in %s, which leaves no time for work: ask the batch system for more than %s",
			left.Round(time.Second), batchMargin)
	}
	return left - batchMargin, nil
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
