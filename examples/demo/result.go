package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/internal/daemon"
)

// outputs are the workflow's final files.
var outputs = []string{"best.tsv", "report.tsv"}

// compute does the same without Pilotage and returns the folder with the
// outputs and the time it took.
func (d *demo) compute(ctx context.Context) (string, time.Duration, error) {
	folder := filepath.Join(d.folder, "direct")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", 0, err
	}
	begin := time.Now()
	command := exec.CommandContext(ctx, filepath.Join(demoFolder, "direct.sh"), folder)
	command.SysProcAttr = daemon.Attributes()
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	if messages, err := command.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("%s/direct.sh: %w: %s", demoFolder, err, messages)
	}
	return folder, time.Since(begin), nil
}

// compare holds the outputs of two folders against each other, byte for byte,
// and returns a table of them.
func compare(got, want string) (string, error) {
	table := ""
	for _, name := range outputs {
		ours, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			return "", err
		}
		theirs, err := os.ReadFile(filepath.Join(want, name))
		if err != nil {
			return "", err
		}
		if len(theirs) == 0 {
			return "", fmt.Errorf("%s is empty", name)
		}
		if !bytes.Equal(ours, theirs) {
			return "", fmt.Errorf("%s differs from that of the direct computation, first at byte %d", name, firstDifference(ours, theirs))
		}
		table += fmt.Sprintf("  %-12s %6d bytes, %4d lines\n", name, len(ours), bytes.Count(ours, []byte{'\n'}))
	}
	return table, nil
}

// firstDifference counts from 1, as cmp(1) does.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i + 1
		}
	}
	return min(len(a), len(b)) + 1
}

// flipByte spoils the middle byte of a file.
func flipByte(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return fmt.Errorf("%s is empty: nothing to spoil", path)
	}
	data[len(data)/2] ^= 1
	return os.WriteFile(path, data, 0o644)
}
