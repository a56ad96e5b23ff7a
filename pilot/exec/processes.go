package exec

import (
	"os"
	"path/filepath"
	"syscall"
)

// payloadUID is the account of payloads.
func (c *Config) payloadUID() int {
	if c.PayloadUser != nil {
		return c.PayloadUser.UID
	}
	return os.Geteuid()
}

// spawnerThreads is what a spawner has of threads itself, which count in its
// namespace; it rarely has half as many.
const spawnerThreads = 32

// ownsProcesses tells whether the kernel counts the processes of each payload by
// itself: in the user namespace of its own that only a plain user's spawners have.
func (w *walls) ownsProcesses() bool {
	return w.groups.has("pids") || w.level >= Namespaces && os.Geteuid() != 0
}

// processLimit is how many processes and threads the kernel lets the payload's
// account have, 0 for as many as the node allows. Where a payload's are not counted
// by themselves, it is a bound for all that the account has, against bombs that are
// faster than the watchdog. The kernel never bounds root.
func (a *attempt) processLimit() int {
	watch := a.runner.cfg.Watch
	switch {
	case a.runner.level < Landlock || a.runner.cfg.payloadUID() == 0:
		return 0
	case a.runner.level >= Namespaces && os.Geteuid() != 0:
		return watch.Threads*a.cores() + spawnerThreads
	}
	return a.runner.account
}

func (a *attempt) cores() int { return max(1, a.spec.Task.Resources.Cores) }

// threadsOf counts what an account has of processes and threads.
func threadsOf(uid int) (threads int) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, folder := range folders {
		info, err := os.Lstat(folder)
		if err != nil {
			continue
		}
		if status, ok := info.Sys().(*syscall.Stat_t); ok && int(status.Uid) == uid {
			one, _ := readStat(folder)
			threads += one.threads
		}
	}
	return threads
}
