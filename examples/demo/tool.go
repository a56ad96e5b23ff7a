package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/internal/daemon"
)

// tool calls the binary as a user would. What the binary prints for programs
// stays in a folder, for a look with DEMO_KEEP=1.
type tool struct{ binary, access, kept string }

// call runs a command and returns its standard output.
func (t *tool) call(ctx context.Context, args ...string) ([]byte, error) {
	command := t.command(ctx, args...)
	var messages bytes.Buffer
	command.Stderr = &messages
	out, err := command.Output()
	return out, told(err, args, messages.String())
}

func (t *tool) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, t.binary, args...)
	command.Env = append(daemon.Environment(), "PILOTAGE_ACCESS="+t.access)
	command.SysProcAttr = daemon.Attributes()
	return command
}

func told(err error, args []string, messages string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pilotage %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(messages))
}

// read runs a command that prints JSON.
func (t *tool) read(ctx context.Context, into any, args ...string) error {
	out, err := t.call(ctx, append(args, "--output", "json")...)
	if err != nil {
		return err
	}
	name := args[0] + "-" + args[1]
	if args[0] == "site" {
		name += "-" + args[2]
	}
	if err := os.WriteFile(filepath.Join(t.kept, name+".json"), out, 0o600); err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("what `pilotage %s` printed: %w", strings.Join(args, " "), err)
	}
	return nil
}

func (t *tool) addSite(ctx context.Context, name, storage string) error {
	_, err := t.call(ctx, "site", "add", name, "--se", storage)
	return err
}

// submit returns the workflow's id.
func (t *tool) submit(ctx context.Context, file string) (string, error) {
	out, err := t.call(ctx, "submit", "-f", file, "--upload", "--parsable")
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out))
	if id == "" {
		return "", errors.New("pilotage submit printed no workflow id")
	}
	return id, nil
}

// wait waits for the end and lets the command draw its progress bar where
// standard error is a terminal. The error carries its report of failed tasks.
func (t *tool) wait(ctx context.Context, id string, timeout time.Duration) error {
	args := []string{"workflow", "wait", id, "--timeout", timeout.String()}
	command := t.command(ctx, args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	return told(err, args, string(out))
}

func (t *tool) outputs(ctx context.Context, id, folder string) error {
	_, err := t.call(ctx, "workflow", "outputs", id, "--to", folder)
	return err
}

// figures collects what the summary and the checks need.
func (t *tool) figures(ctx context.Context, id string) (*figures, error) {
	f := &figures{}
	if err := t.read(ctx, &f.workflow, "workflow", "show", id); err != nil {
		return nil, err
	}
	if err := t.read(ctx, &f.tasks, "task", "list", id, "--full"); err != nil {
		return nil, err
	}
	if err := t.read(ctx, &f.pilots, "pilot", "list"); err != nil {
		return nil, err
	}
	f.sites = make([]siteJSON, len(siteNames))
	for i, name := range siteNames {
		if err := t.read(ctx, &f.sites[i], "site", "show", name); err != nil {
			return nil, err
		}
	}
	return f, nil
}
