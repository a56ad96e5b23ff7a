package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/pprof"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/internal/spelling"
)

// app is what every command shares.
type app struct {
	out    *console
	getenv func(string) string

	access    string // --access
	logLevel  string
	logFormat string

	unshown sync.Once // says once why a storage element is not shown the user's credential

	profilePath string // --cpu-profile
	endProfile  func() // set while one is written
}

// Each has the commands of one group: `pilotage access ...`, `pilotage site ...`.
type (
	accessCommands   struct{ *app }
	factoryCommands  struct{ *app }
	fileCommands     struct{ *app }
	pilotCommands    struct{ *app }
	queueCommands    struct{ *app }
	simCommands      struct{ *app }
	siteCommands     struct{ *app }
	taskCommands     struct{ *app }
	workflowCommands struct{ *app }
)

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "pilotage",
		Short: "A late-binding overlay for scientific workloads on borrowed batch resources",
		Long: `Pilotage runs a VO's workflows over pilots: batch jobs that join their site's
network, share their caches, and schedule the site's tasks among themselves.

  pilotage dev                     try everything on this machine
  pilotage taskqueue               the VO's central queue
  pilotage pilot --access FILE     a pilot, as a batch job runs it
  pilotage submit -f workflow.yaml --wait

Exit codes: 0 ok, 1 internal, or a pilot's node is unfit, 2 usage or a bad file,
3 the queue or a storage element cannot be reached, or the queue's disk is full,
4 access refused or expired, 5 not found, 6 a workflow or task failed, 7 a wait timed out, 8 conflict,
130 interrupted.`,
		// Flags before a command's name are the program's, even where the command
		// has one of the same name: see submit's --output.
		TraverseChildren: true,

		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return a.prepare()
		},
	}
	root.SetOut(a.out.stdout)
	root.SetErr(a.out.stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.access, "access", "", "access file (default $PILOTAGE_ACCESS, then $XDG_CONFIG_HOME/pilotage/access.json)")
	flags.StringVarP(&a.out.output, "output", "o", "", "table, json or jsonl (default $PILOTAGE_OUTPUT, then table)")
	flags.StringVar(&a.logLevel, "log", "", "debug, info, warn or error (default $PILOTAGE_LOG, then info for daemons, warn for tools)")
	flags.StringVar(&a.logFormat, "log-format", "", "text or json (default $PILOTAGE_LOG_FORMAT, then text)")
	flags.StringVar(&a.profilePath, "cpu-profile", "", "write a CPU profile of this process to a file, for go tool pprof")
	root.AddCommand(
		queueCommands{a}.group(), pilotCommands{a}.group(), factoryCommands{a}.group(), newDev(a), accessCommands{a}.group(), siteCommands{a}.group(), fileCommands{a}.group(), newSubmit(a),
		workflowCommands{a}.group(), taskCommands{a}.group(), newEvents(a), newTop(a), newUsage(a), newDoctor(a), newCache(a), simCommands{a}.group(), (&benches{app: a}).group(), newVersion(a),
	)
	completeGroups(root)
	a.completeSites(root)
	wrapArgErrors(root)
	return root
}

// execute runs the command that the arguments name. Wrong flags are wrong usage,
// before a command's name as behind it.
func execute(ctx context.Context, root *cobra.Command) error {
	command, err := root.ExecuteContextC(ctx)
	var (
		unknown   *pflag.NotExistError
		bare      *pflag.ValueRequiredError
		invalid   *pflag.InvalidValueError
		malformed *pflag.InvalidSyntaxError
	)
	if errors.As(err, &unknown) || errors.As(err, &bare) || errors.As(err, &invalid) || errors.As(err, &malformed) {
		return usage(flagError(command, err))
	}
	return err
}

// flagError says what a flag takes where Go's own words do not, and which flag
// was meant.
func flagError(command *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		return fmt.Errorf("--%s is %q: give a time with its unit, for example 30s, 5m or 1h30m", invalid.GetFlag().Name, invalid.GetValue())
	}
	meant := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var known []string
		command.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		name := unknown.GetSpecifiedName()
		if near := spelling.Nearest(name, known, max(1, len(name)/3)); near != "" {
			meant = ": did you mean --" + near + "?"
		}
	}
	return fmt.Errorf("%w%s\nSee: %s --help", err, meant, command.CommandPath())
}

// completeGroups lets commands that only hold others print their help, and
// refuse what they do not hold instead of printing it with success.
func completeGroups(command *cobra.Command) {
	for _, child := range command.Commands() {
		completeGroups(child)
	}
	if command.Runnable() {
		return
	}
	command.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		c.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets too late for us
		text := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			text += ": did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("%s\nSee: %s --help", text, c.CommandPath())
	}
	command.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// wrapArgErrors makes complaints about arguments usage errors.
func wrapArgErrors(command *cobra.Command) {
	if check := command.Args; check != nil {
		command.Args = func(c *cobra.Command, args []string) error { return usage(check(c, args)) }
	}
	for _, child := range command.Commands() {
		wrapArgErrors(child)
	}
}

func (a *app) prepare() error {
	if a.out.output == "" {
		a.out.output = a.getenv("PILOTAGE_OUTPUT")
	}
	switch a.out.output {
	case "":
		a.out.output = "table"
	case "table", "json", "jsonl":
	default:
		return coded(exitUsage, "--output is %q: give table, json or jsonl", a.out.output)
	}
	if _, err := a.logger(slog.LevelWarn); err != nil {
		return err
	}
	return a.startProfile()
}

// startProfile begins the profile that was asked for; run ends it.
func (a *app) startProfile() error {
	if a.profilePath == "" {
		return nil
	}
	file, err := os.Create(a.profilePath)
	if err != nil {
		return usage(fmt.Errorf("--cpu-profile: %w", err))
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	a.endProfile = func() {
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			slog.Warn("the CPU profile is not complete", "error", err)
		}
	}
	return nil
}

// logger makes the process's logger; level applies unless a flag or variable
// says otherwise.
func (a *app) logger(level slog.Level) (*slog.Logger, error) {
	text := a.logLevel
	if text == "" {
		text = a.getenv("PILOTAGE_LOG")
	}
	if text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, coded(exitUsage, "--log is %q: give debug, info, warn or error", text)
		}
	}
	format := a.logFormat
	if format == "" {
		format = a.getenv("PILOTAGE_LOG_FORMAT")
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch strings.ToLower(format) {
	case "", "text":
		handler = slog.NewTextHandler(a.out.stderr, options)
	case "json":
		handler = slog.NewJSONHandler(a.out.stderr, options)
	default:
		return nil, coded(exitUsage, "--log-format is %q: give text or json", format)
	}
	logger := slog.New(handler)
	slog.SetDefault(logger)
	return logger, nil
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  asUsed,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out.stdout, "pilotage", version)
			return err
		},
	}
}

// isTerminal tells whether a stream is a terminal that wants progress bars.
func isTerminal(w io.Writer) bool {
	file, ok := terminalOf(w).(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
