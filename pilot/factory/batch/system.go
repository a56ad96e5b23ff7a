package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/pilotage-grid/pilotage/internal/shell"
	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/task"
)

// System is a batch system.
type System interface {
	// Submit returns the id of the new job. An error that is ErrRefused is certain:
	// there is no job; after any other there may be one.
	Submit(ctx context.Context, job *Job) (id string, err error)
	// List returns this user's jobs that are pending or running, and maybe others.
	List(ctx context.Context) ([]factory.Listed, error)
	// Cancel ends jobs; those that do not exist are passed over.
	Cancel(ctx context.Context, ids ...string) error
}

// ErrRefused tells that a batch system has taken no job.
var ErrRefused = errors.New("the batch system refuses the job")

// Runner runs a command and returns what it prints; [Run] does it here, [Over]
// elsewhere.
type Runner func(ctx context.Context, words []string) (stdout, stderr string, err error)

// mostPrinted bounds what is read of a command.
const mostPrinted = 64 << 20

// Run runs a command on this machine.
func Run(ctx context.Context, words []string) (string, string, error) {
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	var stdout, stderr limited
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if err == nil && stdout.cut {
		err = fmt.Errorf("%s printed more than %d bytes", words[0], mostPrinted)
	}
	return stdout.String(), stderr.String(), err
}

// Over runs commands on another machine, by ssh or whatever the words before say.
func Over(before ...string) Runner {
	return func(ctx context.Context, words []string) (string, string, error) {
		return Run(ctx, append(append([]string{}, before...), shell.Join(words)))
	}
}

// limited keeps the first bytes written to it.
type limited struct {
	bytes.Buffer
	cut bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := mostPrinted - l.Len(); len(p) > room {
		l.cut = true
		l.Buffer.Write(p[:room])
		return len(p), nil
	}
	return l.Buffer.Write(p)
}

// New returns the batch system of a definition, whose commands the runner runs.
func New(d *Definition, run Runner, user string) System { return &commands{d, run, user} }

type commands struct {
	*Definition
	run  Runner
	user string
}

// WriteScript writes the job's file, which holds the pilot's access, for its owner
// alone.
func (d *Definition) WriteScript(job *Job) error {
	var text strings.Builder
	if err := d.script.Execute(&text, job); err != nil {
		return fmt.Errorf("batch system %s: fill in the script: %w", d.Name, err)
	}
	if err := os.WriteFile(job.Script, []byte(text.String()), 0o700); err != nil {
		return fmt.Errorf("write the script of job %s: %w", job.Name, err)
	}
	return nil
}

func (c *commands) call(ctx context.Context, command *Command, job *Job) (string, error) {
	words, err := command.fill(job)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	stdout, stderr, err := c.run(ctx, words)
	if err == nil {
		return stdout, nil
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: no answer: %w", words[0], ctx.Err())
	}
	said := task.Brief(stderr + " " + stdout)
	if command.Absent != "" && command.absent.MatchString(stderr+stdout) {
		return "", fmt.Errorf("%s: %w: %s", words[0], fs.ErrNotExist, said)
	}
	return "", fmt.Errorf("%s: %w: %s", words[0], err, said)
}

func (c *commands) Submit(ctx context.Context, job *Job) (string, error) {
	if err := c.WriteScript(job); err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	printed, err := c.call(ctx, &c.Definition.Submit, job)
	var exit *exec.ExitError
	switch submit := &c.Definition.Submit; {
	case err != nil && submit.Unsure != "" && submit.unsure.MatchString(err.Error()):
		return "", err
	case errors.As(err, &exit) && exit.Exited(), errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return "", err
	}
	if ids := c.Definition.Submit.jobs(printed); len(ids) > 0 && ids[0].ID != "" {
		return ids[0].ID, nil
	}
	return "", fmt.Errorf("%s: no job id in %q", c.Name, task.Brief(printed))
}

func (c *commands) List(ctx context.Context) ([]factory.Listed, error) {
	printed, err := c.call(ctx, &c.Definition.List, &Job{User: c.user})
	if errors.Is(err, fs.ErrNotExist) && c.Definition.List.Absent != "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	jobs := c.Definition.List.jobs(printed)
	if len(jobs) == 0 && !c.Definition.List.absent.MatchString(printed) {
		return nil, fmt.Errorf("%s lists neither jobs nor that there are none: %q", c.Name, task.Brief(printed))
	}
	return jobs, nil
}

func (c *commands) Cancel(ctx context.Context, ids ...string) error {
	_, err := c.call(ctx, &c.Definition.Cancel, &Job{User: c.user, IDs: ids})
	if errors.Is(err, fs.ErrNotExist) && c.Definition.Cancel.Absent != "" {
		return nil
	}
	return err
}
