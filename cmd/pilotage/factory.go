package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/internal/shell"
	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/pilot/factory/batch"
	"github.com/pilotage-grid/pilotage/pilot/factory/service"
	"github.com/pilotage-grid/pilotage/task"
)

// factorySettings are what the flags or a file say of a factory.
type factorySettings struct {
	Site    string        `yaml:"site"`
	Batch   string        `yaml:"batch"`   // name of a batch system, or a file with a definition
	SSH     string        `yaml:"ssh"`     // machine on which its commands run
	Min     int           `yaml:"min"`     // least jobs
	Max     int           `yaml:"max"`     // most jobs
	Backlog int           `yaml:"backlog"` // most pending jobs
	Idle    time.Duration `yaml:"idle"`    // after which pilots end
	Binary  string        `yaml:"binary"`  // of pilotage, where pilots run
	Pilot   []string      `yaml:"pilot"`   // further arguments of pilots
	Places  int           `yaml:"places"`  // of batch system local
	Every   time.Duration `yaml:"every"`   // between two looks
	Shapes  []shapeFile   `yaml:"shapes"`  // instead of the flags of one
	flags   factoryFlags
}

// factoryFlags are what only flags say.
type factoryFlags struct {
	folder  string
	metrics string
	from    string
	one     shapeFile
	dryRun  bool
}

// shapeFile is a shape as people write it.
type shapeFile struct {
	factory.Shape `yaml:",inline"`
	Cores         int    `yaml:"cores"`
	Memory        string `yaml:"memory"`
	Disk          string `yaml:"disk"`
	GPUs          int    `yaml:"gpus"`
}

func (a factoryCommands) group() *cobra.Command {
	f := &factorySettings{}
	command := &cobra.Command{
		Use:   "factory --batch SYSTEM [-- ARGUMENTS of its submit command]",
		Short: "Submit pilots to a batch system by demand",
		Long: `A factory runs at a site, where the commands of its batch system are. It asks the
queue what waits for the site's pilots, and the batch system which of its pilot jobs
are there, and submits as many as the tasks need, in the limits given. Pilots end when
they are idle; pending jobs that nobody needs any more are cancelled.

It needs an access of role factory (pilotage access create --role factory --site
SITE), which reads that demand and makes tokens for one pilot each, nothing else. Its
folder holds the names of its jobs, so that after a restart it finds them again and
submits nothing twice. Jobs go on while it is away.

Nodes at which pilot jobs die at once, or that fail payloads, are left out for a
time that grows, and tried again. When jobs are refused, or die wherever they are,
the factory waits longer each time, and goes on with one job on trial.

Batch systems: ` + strings.Join(batch.Names(), ", ") + `, or a file with a definition
(pilotage factory template slurm > mine.yaml).`,
		Example: `  pilotage factory --batch slurm --max 200 --backlog 4 --idle 10m -- --cpus-per-task=8 --mem=16G --time=12:00:00`,
		RunE:    func(c *cobra.Command, args []string) error { return a.runFactory(c.Context(), f, args) },
	}
	flags := command.Flags()
	flags.StringVar(&f.flags.from, "config", "", "file with these settings, and with several shapes of jobs (docs/factory.md)")
	flags.StringVar(&f.Site, "site", "", "site of the pilots (default: that of the access)")
	flags.StringVar(&f.Batch, "batch", "", "batch system, or a file that defines one")
	flags.StringVar(&f.SSH, "ssh", "", "machine on which the batch system's commands run, by ssh (default: this one)")
	flags.IntVar(&f.Min, "min", 0, "least number of jobs, whatever the demand")
	flags.IntVar(&f.Max, "max", 100, "most jobs, pending and running")
	flags.IntVar(&f.Backlog, "backlog", 4, "most jobs that are pending in the batch system")
	flags.DurationVar(&f.Idle, "idle", 10*time.Minute, "pilots end when they had nothing to do for so long")
	flags.DurationVar(&f.Every, "every", 15*time.Second, "time between two looks at the batch system; the queue is asked every 3s")
	flags.StringVar(&f.Binary, "binary", "", "path of pilotage where pilots run (default: this program's)")
	flags.StringSliceVar(&f.Pilot, "pilot", nil, "further argument of the pilots, e.g. --pilot=--cache-size=50GiB (repeatable)")
	flags.IntVar(&f.Places, "places", 4, "jobs at once, with --batch local")
	flags.IntVar(&f.flags.one.Cores, "cores", 0, "cores of a job (default: what --cpus-per-task says, else 1)")
	flags.StringVar(&f.flags.one.Memory, "memory", "", "memory of a job (default: what --mem says, else 2GiB for each core)")
	flags.StringVar(&f.flags.one.Disk, "disk", "20GiB", "disk of a job")
	flags.IntVar(&f.flags.one.GPUs, "gpus", 0, "GPUs of a job")
	flags.DurationVar(&f.flags.one.Walltime, "walltime", 0, "of a job (default: what --time says, else 24h)")
	flags.StringSliceVar(&f.flags.one.Features, "feature", nil, "what the nodes have, for requirements (repeatable)")
	flags.StringVar(&f.flags.metrics, "metrics", "", "address for /metrics, e.g. 127.0.0.1:7422 (default: none)")
	flags.BoolVar(&f.flags.dryRun, "dry-run", false, "print what would be done now, and end")
	command.PersistentFlags().StringVar(&f.flags.folder, "folder", "", "folder of the factory (default $XDG_STATE_HOME/pilotage/factory)")
	command.AddCommand(a.status(f), a.check(f), a.template())
	completeWords(command, "batch", batch.Names()...)
	return command
}

// complete reads the file, and puts what it says and what the flags say together.
func (f *factorySettings) complete(a *app, access *identity.AccessFile, arguments []string) (factory.Config, error) {
	if f.flags.from != "" {
		text, err := os.ReadFile(f.flags.from)
		if err != nil {
			return factory.Config{}, err
		}
		if err := batch.LoadStrictly(text, f); err != nil {
			return factory.Config{}, fmt.Errorf("%s: %w: docs/factory.md has an example", f.flags.from, err)
		}
	}
	if f.Batch == "" {
		return factory.Config{}, fmt.Errorf("--batch: give one of %s, or a file that defines a batch system", strings.Join(batch.Names(), ", "))
	}
	if f.Idle <= 0 || f.Every < time.Second {
		return factory.Config{}, fmt.Errorf("--idle %s, --every %s: give a positive time, and at least 1s", f.Idle, f.Every)
	}
	if f.Site == "" {
		f.Site = string(access.Site)
	}
	if f.Site == "" {
		return factory.Config{}, fmt.Errorf("the access file is for role %s and names no site: give an access of role factory (pilotage access create --role factory --site SITE --to FILE)", access.Role)
	}
	if f.Shapes == nil {
		f.flags.one.Name, f.flags.one.Arguments = "job", arguments
		if err := f.flags.one.fromArguments(); err != nil {
			return factory.Config{}, err
		}
		f.Shapes = []shapeFile{f.flags.one}
	} else if len(arguments) > 0 {
		return factory.Config{}, fmt.Errorf("arguments beside a file with shapes: give them there")
	}
	config := factory.Config{
		Site: task.Site(f.Site), Min: f.Min, Max: f.Max, Backlog: f.Backlog,
		Timings: factory.Timings{Poll: f.Every, Fresh: max(time.Minute, 4*f.Every)},
	}
	for i := range f.Shapes {
		shape := &f.Shapes[i]
		if err := shape.resources(); err != nil {
			return factory.Config{}, fmt.Errorf("shape %s: %w", shape.Name, err)
		}
		config.Shapes = append(config.Shapes, shape.Shape)
	}
	if f.Binary == "" {
		own, err := os.Executable()
		if err != nil {
			return factory.Config{}, err
		}
		f.Binary = own
	}
	if f.flags.folder == "" {
		f.flags.folder = stateFolder(a.getenv, "factory")
	}
	return config, config.Validate()
}

func (s *shapeFile) resources() error {
	s.Resources = task.Resources{Cores: max(1, s.Cores), GPUs: s.GPUs}
	s.Resources.Memory = task.Bytes(s.Resources.Cores) * 2 * task.GiB
	if s.Walltime == 0 {
		s.Walltime = 24 * time.Hour
	}
	for _, size := range []struct {
		name, text string
		into       *task.Bytes
	}{{"memory", s.Memory, &s.Resources.Memory}, {"disk", s.Disk, &s.Resources.Disk}} {
		if size.text == "" {
			continue
		}
		var err error
		if *size.into, err = task.ParseBytes(size.text); err != nil {
			return fmt.Errorf("%s: %w", size.name, err)
		}
	}
	return nil
}

// fromArguments takes what Slurm's options say of the job, where no flag does.
func (s *shapeFile) fromArguments() error {
	for _, argument := range s.Arguments {
		name, value, _ := strings.Cut(argument, "=")
		switch {
		case name == "--cpus-per-task" && s.Cores == 0:
			if _, err := fmt.Sscan(value, &s.Cores); err != nil || s.Cores < 1 {
				return fmt.Errorf("%s: give a number of cores", argument)
			}
		case name == "--mem" && s.Memory == "":
			if s.Memory = value; strings.IndexAny(value, "KMGT") == len(value)-1 {
				s.Memory += "iB"
			} else {
				s.Memory += "MiB"
			}
		case name == "--time" && s.Walltime == 0:
			walltime, err := slurmTime(value)
			if err != nil {
				return fmt.Errorf("%s: %w", argument, err)
			}
			s.Walltime = walltime
		}
	}
	return nil
}

// slurmTime reads minutes, minutes:seconds, hours:minutes:seconds, and the same
// behind days-.
func slurmTime(text string) (time.Duration, error) {
	days, rest, withDays := strings.Cut(text, "-")
	if !withDays {
		days, rest = "0", text
	}
	parts := strings.Split(rest, ":")
	units := map[int][]time.Duration{1: {time.Minute}, 2: {time.Minute, time.Second}, 3: {time.Hour, time.Minute, time.Second}}[len(parts)]
	if withDays {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	if len(units) < len(parts) {
		return 0, fmt.Errorf("%q is no time of Slurm's, such as 12:00:00", text)
	}
	var total time.Duration
	for i, part := range append([]string{days}, parts...) {
		unit := 24 * time.Hour
		if i > 0 {
			unit = units[i-1]
		}
		n, err := time.ParseDuration(part + "s")
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q is no time of Slurm's, such as 12:00:00", text)
		}
		total += time.Duration(n.Seconds()) * unit
	}
	return total, nil
}

// system opens the batch system.
func (f *factorySettings) system() (batch.System, error) {
	if f.Batch == "local" {
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		return &batch.Local{Folder: filepath.Join(f.flags.folder, "jobs"), Places: f.Places, Node: host}, nil
	}
	text, err := os.ReadFile(f.Batch)
	if err != nil {
		if text, err = batch.Text(f.Batch); err != nil {
			return nil, err
		}
	}
	definition, err := batch.Parse(text)
	if err != nil {
		return nil, err
	}
	run := batch.Runner(batch.Run)
	if f.SSH != "" {
		run = batch.Over("ssh", "-o", "BatchMode=yes", f.SSH)
	}
	return batch.New(definition, run, currentUser()), nil
}

// command is what a job runs.
func (f *factorySettings) command(shape *factory.Shape) string {
	words := []string{
		f.Binary, "pilot", "--idle", f.Idle.String(), "--slots", fmt.Sprint(shape.Resources.Cores),
		"--memory", fmt.Sprint(int64(shape.Resources.Memory)), "--disk", fmt.Sprint(int64(shape.Resources.Disk)),
		"--lifetime", shape.Lifetime().String(),
	}
	for _, feature := range shape.Features {
		words = append(words, "--feature", feature)
	}
	return shell.Join(append(words, f.Pilot...))
}

func (a factoryCommands) runFactory(ctx context.Context, f *factorySettings, arguments []string) error {
	access, err := a.readAccess()
	if err != nil {
		return err
	}
	if access.Role != identity.RoleFactory && access.Role != identity.RoleAdmin {
		return coded(exitRefused, "the access file is for role %s: a factory needs one of role factory", access.Role)
	}
	config, err := f.complete(a.app, access, arguments)
	if err != nil {
		return usage(err)
	}
	log, err := a.logger(0)
	if err != nil {
		return err
	}
	system, err := f.system()
	if err != nil {
		return usage(err)
	}
	queue, err := connectWith(access)
	if err != nil {
		return err
	}
	defer queue.close()
	running := service.Config{
		Factory: config, Folder: f.flags.folder, System: system, User: currentUser(), Command: f.command, Queue: service.Client{Sites: queue.sites},
		Log: log, DryRun: f.flags.dryRun,
	}
	if f.flags.metrics != "" {
		registry, observe := factoryMetrics(config.Site)
		stop, err := serveMetrics(ctx, registry, f.flags.metrics)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return fmt.Errorf("--metrics: %w: another factory may run: give this one another port", err)
		case err != nil:
			return usage(fmt.Errorf("--metrics: %w", err))
		}
		defer stop()
		running.Observe = observe
	}
	err = service.Run(ctx, running)
	if errors.Is(err, service.ErrRunning) {
		return coded(exitConflict, "%w", err)
	}
	return err
}

func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func (a factoryCommands) status(f *factorySettings) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show a factory's jobs and why it submits no more", Args: asUsed,
		RunE: func(*cobra.Command, []string) error {
			if f.flags.folder == "" {
				f.flags.folder = stateFolder(a.getenv, "factory")
			}
			s, err := service.Status(f.flags.folder)
			if err != nil {
				return coded(exitNotFound, "%w: start one, or give the --folder of the one that runs", err)
			}
			return a.out.show(s, func() error { return a.out.printFactory(&s) })
		},
	}
}

func (o *console) printFactory(s *factory.Status) error {
	states := make(map[factory.State]int)
	for i := range s.Jobs {
		states[s.Jobs[i].State]++
	}
	rows := [][]string{
		{"site", string(s.Site)}, {"as of", ago(s.Time, time.Now()) + " ago"},
		{"tasks", fmt.Sprintf("%d wait, %d of them for free slots and jobs that are there", s.Tasks, s.Served)},
		{"jobs", fmt.Sprintf("%d running, %d pending, %d being submitted", states[factory.Running], states[factory.Pending], states[factory.Planned])},
		{"paused", orDash(s.Paused)},
	}
	for _, u := range s.Unmet {
		rows = append(rows, []string{"no job for", fmt.Sprintf("%s: %s", task.Counted(u.Tasks, "task"), u.Why)})
	}
	for _, n := range s.Nodes {
		rows = append(rows, []string{"failing node", fmt.Sprintf("%s, left out until %s: %s", n.Node, n.Until.UTC().Format(inUTC), n.Why)})
	}
	if err := o.table(nil, rows); err != nil || len(s.Jobs) == 0 {
		return err
	}
	return o.table([]string{"JOB", "ID", "SHAPE", "STATE", "NODE", "PILOT", "AGE", "WHY"}, rowsOf(s.Jobs, func(j factory.Job) []any {
		return []any{j.Name, j.ID, j.Shape, j.State, j.Node, j.Pilot, ago(j.Submitted, time.Now()), j.Why}
	}))
}

func (a factoryCommands) template() *cobra.Command {
	return &cobra.Command{
		Use: "template SYSTEM", Short: "Print the definition of a batch system, to be changed and given to --batch", Args: asUsed,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := batch.Text(args[0])
			if err != nil {
				return coded(exitNotFound, "%w", err)
			}
			_, err = a.out.stdout.Write(text)
			return err
		},
	}
}
