package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/identity/dial"
	"github.com/pilotage-grid/pilotage/matcher"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// submitFlags say what is submitted, and how.
type submitFlags struct {
	file     string // of a workflow
	recorded recordedFlags
	singleFlags
	takenFlags
	queue                          string
	sites                          []string // to which sources are uploaded
	upload, dryRun, wait, parsable bool
	timeout                        time.Duration // of the wait; 0: none
}

// singleFlags describe a single command or script.
type singleFlags struct {
	name, require, rank, array string
	settings                   map[string]string // by key of a workflow file
	inputs, outputs            []string
	files, tag, script         string
	argv, ignored              []string // of the script: what runs it, and its directives that mean nothing
}

// takenFlags say how the queue takes a workflow.
type takenFlags struct {
	key                       string
	group                     string // that it is shared with
	fresh, keep, allowMissing bool
}

func newSubmit(a *app) *cobra.Command {
	f := &submitFlags{}
	command := &cobra.Command{
		Use:   "submit (-f FILE | --wfformat FILE | --dax FILE | --script FILE [-- ARG ...] | -- COMMAND [ARG ...])",
		Short: "Submit a workflow file, a recorded workflow, or one command",
		Example: `  pilotage submit -f workflow.yaml --upload --wait
  pilotage submit --input data.txt --output counts.txt --wait -- sh -c 'wc data.txt > counts.txt'
  pilotage submit --array 00-19 --input simulate --wait -- ./simulate --seed {i}
  pilotage submit -q blast -g nr.00,query.fa --script blast.pbs
  pilotage submit --wfformat montage.json.gz --time-scale 0.001 --size-scale 0.001 --wait`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkCommand(args, c.ArgsLenAtDash()); err != nil {
				return usage(err)
			}
			if err := f.checkFlags(c.Flags()); err != nil {
				return usage(err)
			}
			return a.submit(c.Context(), f, args)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "workflow file (docs/workflow.md); - reads it from standard input")
	flags.BoolVar(&f.upload, "upload", false, "put the files' sources to the storage elements first (what a single command reads is put there anyhow)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check and print the tasks, submit nothing")
	flags.BoolVar(&f.wait, "wait", false, "wait for the end")
	flags.DurationVar(&f.timeout, "timeout", 0, "with --wait: give up after this time, exit code 7; the workflow goes on (default: never)")
	flags.BoolVar(&f.parsable, "parsable", false, "print the workflow id and nothing else")
	flags.StringVar(&f.group, "group", "", "group of yours whose members may use the workflow as if it were theirs")
	flags.BoolFunc("public", "let everybody look into the workflow and take over its results", func(string) error {
		f.group = taskqueue.Everybody
		return nil
	})
	command.MarkFlagsMutuallyExclusive("group", "public")
	flags.BoolVar(&f.fresh, "fresh", false, "run everything, also what an earlier run of the same name has done")
	flags.StringVar(&f.key, "key", "", "idempotency key: what was submitted under the same key before is not submitted again (default: a random one)")
	flags.BoolVar(&f.keep, "keep-intermediates", false, "keep files that are no final outputs; otherwise their copies go some days after the workflow is done")
	flags.BoolVar(&f.allowMissing, "allow-missing", false, "let tasks wait for inputs that nothing makes")
	flags.StringSliceVar(&f.sites, "site", nil, "upload to these sites' storage elements only (default: all that are not drained)")
	flags.StringVar(&f.name, "name", "", "name of a single command's workflow (default: the command's)")
	flags.StringArrayVar(&f.inputs, "input", nil, "`[NAME=]PATH` or vo:NAME that a single command reads (repeatable)")
	flags.StringArrayVar(&f.outputs, "output", nil, "`[LFN=]PLACE` that a single command leaves behind (repeatable; for JSON write: pilotage --output json submit)")
	flags.StringVar(&f.require, "require", "", "CEL expression that a pilot must meet")
	flags.StringVar(&f.rank, "rank", "", "built-in rank or CEL expression")
	for _, setting := range settingsOfSingle {
		flags.String(setting.key, "", setting.usage)
	}
	flags.StringVar(&f.array, "array", "", "one task per index, {i} in command and file names: 0-9, 00-19, 1-3,7")
	flags.StringVarP(&f.queue, "queue", "q", "", "queue of all tasks that name none: sites whose solver is dad serve queues in turn")
	flags.StringVarP(&f.files, "files", "g", "", "files that a single command or script reads, with commas or blanks between them, each as for --input")
	flags.StringVar(&f.tag, "ext", "", "the same as a tag: 'Gfarm Files=f1,..,fn'")
	flags.StringVar(&f.script, "script", "", "shell script to run as a single command; its #PBS -g, -q, -N and #BSUB -ext, -q, -J lines are read")
	f.recorded.register(command)
	return command
}

// checkCommand catches who forgot -f, or the -- that tells a command's words
// from this program's.
func checkCommand(args []string, beforeDash int) error {
	if beforeDash < 0 {
		beforeDash = len(args)
	}
	switch {
	case beforeDash == 0:
		return nil
	case beforeDash == 1 && len(args) == 1 && (strings.HasSuffix(args[0], ".yaml") || strings.HasSuffix(args[0], ".yml")):
		return fmt.Errorf("%s looks like a workflow file: write pilotage submit -f %s; to run it as a command write pilotage submit -- %[1]s", args[0], args[0])
	default:
		return fmt.Errorf("unexpected %q: write -- before the command, as in pilotage submit --wait -- %s", args[0], shorten(strings.Join(args, " "), 60))
	}
}

// ofSingle are the flags that describe a single command or script.
var ofSingle = func() []string {
	names := []string{"name", "input", "output", "require", "rank", "array"}
	for _, setting := range settingsOfSingle {
		names = append(names, setting.key)
	}
	return names
}()

// settingsOfSingle are the settings of a workflow file that are flags as well.
var settingsOfSingle = func() []setting {
	list := []setting{
		{"retries", "further attempts after a failure (default 3)"},
		{"walltime", "longest run of one attempt, e.g. 1h (default 24h)"},
		{"container", "folder of an unpacked image at the nodes, in which it runs, e.g. below /cvmfs/unpacked.cern.ch"},
	}
	usages := map[string]string{
		"cores": "CPU cores to reserve (default 1)", "memory": "memory to reserve, e.g. 500MiB (default 512MiB)",
		"disk": "space to reserve for the work folder, e.g. 2GiB (default 1GiB)", "gpus": "GPUs to reserve (default 0)",
	}
	for _, resource := range task.AllResources {
		list = append(list, setting{resource.Name, usages[resource.Name]})
	}
	return list
}()

// setting is one of a workflow file's, with what its flag says.
type setting struct{ key, usage string }

// checkFlags takes the settings of a single command, and refuses them where they
// would change nothing of a workflow.
func (f *submitFlags) checkFlags(flags *pflag.FlagSet) error {
	if f.timeout != 0 && !f.wait {
		return errors.New("--timeout bounds the wait: give --wait, too")
	}
	if f.file == "" && !f.recorded.given() {
		f.settings = make(map[string]string)
		for _, setting := range settingsOfSingle {
			if flags.Changed(setting.key) {
				f.settings[setting.key] = flags.Lookup(setting.key).Value.String()
			}
		}
		return nil
	}
	for _, name := range ofSingle {
		if flags.Changed(name) {
			return fmt.Errorf("--%s is of a single command or script and would change nothing of a workflow: in a workflow file, write it there (docs/workflow.md)", name)
		}
	}
	return nil
}

// plan reads what is to be submitted.
func (f *submitFlags) plan(args []string, registered func(name string) bool) (*workflow.Plan, error) {
	options := workflow.Options{AllowMissing: f.allowMissing, CheckExpression: checkExpression, Registered: registered}
	given := 0
	for _, is := range []bool{f.file != "", f.recorded.given(), f.script != "" || len(args) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, errors.New("give one of these, not both: a workflow file with -f, a recorded workflow with --wfformat or --dax, a script with --script, a command after --")
	case (f.file != "" || f.recorded.given()) && (f.files != "" || f.tag != ""):
		return nil, errors.New("-g and --ext name the files of a single command or script: in a workflow file, list them as inputs of its tasks")
	case f.recorded.given():
		return f.recorded.plan()
	case f.file != "":
		data, err := readInput(f.file, workflow.MaxBytes)
		if err != nil {
			return nil, err
		}
		options.Dir = filepath.Dir(f.file) // of standard input: this folder
		parsed, err := workflow.Parse(f.file, data)
		if err != nil {
			return nil, err
		}
		return parsed.Expand(options)
	case f.script != "" || len(args) > 0:
		name, argv, inputs, err := f.single(args)
		if err != nil {
			return nil, err
		}
		plan, err := workflow.SingleTask(workflow.Single{
			Name: name, Argv: argv, Inputs: inputs, Outputs: f.outputs, Require: f.require, Rank: f.rank,
			Settings: f.settings, Array: f.array,
		}, options)
		if err == nil && f.argv != nil {
			plan.Tasks[0].Argv = f.argv // as it is: nothing in a script stands for anything
			err = plan.Tasks[0].Validate()
		}
		return plan, err
	default:
		return nil, errors.New("nothing to submit: give a workflow file with -f, a recorded one with --wfformat or --dax, a script with --script, or a command after --")
	}
}

// single is a command or script with the files that it was said to read. What
// the command line says goes before what the script says.
func (f *submitFlags) single(args []string) (name string, argv, inputs []string, err error) {
	name, argv, inputs = f.name, args, slices.Clone(f.inputs)
	var files []string
	if f.files != "" {
		if files, err = parseFiles(f.files); err != nil {
			return "", nil, nil, fmt.Errorf("-g: %w", err)
		}
	}
	if f.tag != "" {
		tagged, err := parseGfarmTag(f.tag)
		if err != nil {
			return "", nil, nil, fmt.Errorf("--ext: %w", err)
		}
		files = append(files, tagged...)
	}
	if f.script != "" {
		if f.array != "" {
			return "", nil, nil, errors.New("--array is for commands: {i} stands for nothing in a script")
		}
		script, err := readBatchScript(f.script)
		if err != nil {
			return "", nil, nil, err
		}
		f.ignored = script.ignored
		name, f.queue = cmp.Or(name, script.name), cmp.Or(f.queue, script.queue)
		if len(files) == 0 {
			files = script.files
		}
		f.argv = slices.Concat(script.argv, args)
		argv = script.argv[:1]
	}
	for _, file := range files {
		if !slices.Contains(inputs, file) {
			inputs = append(inputs, file)
		}
	}
	return name, argv, inputs, nil
}

// enqueue gives its queue to the tasks that name none.
func (f *submitFlags) enqueue(plan *workflow.Plan) error {
	if !task.ValidQueue(f.queue) {
		return fmt.Errorf("queue %q: give up to %d letters, digits, '.', '_' and '-'", f.queue, task.MaxQueue)
	}
	for i := range plan.Tasks {
		plan.Tasks[i].Queue = cmp.Or(plan.Tasks[i].Queue, f.queue)
	}
	return nil
}

func checkExpression(kind, expression string) error {
	if kind == "rank" {
		return matcher.Check(matcher.RankExpression, expression)
	}
	return matcher.Check(matcher.RequirementExpression, expression)
}

// checkOutputs catches who means the program's --output, which this command's
// own hides.
func (f *submitFlags) checkOutputs() error {
	for _, output := range f.outputs {
		switch output {
		case "table", "json", "jsonl":
			return fmt.Errorf("--output %[1]s names a file that the command leaves behind: for %[1]s output write `pilotage --output %[1]s submit ...` or set PILOTAGE_OUTPUT=%[1]s; for a file of that name write --output %[1]s=%[1]s", output)
		}
	}
	return nil
}

func (a *app) submit(ctx context.Context, f *submitFlags, args []string) error {
	if err := f.checkOutputs(); err != nil {
		return usage(err)
	}
	defer f.recorded.close()
	var registered func(string) bool
	if !f.dryRun { // which needs no queue
		catalogue := a.openCatalogue(ctx)
		defer catalogue.close()
		registered = catalogue.has
	}
	plan, err := f.plan(args, registered)
	if err == nil {
		err = f.enqueue(plan)
	}
	if err != nil {
		return usage(err)
	}
	if err := checkSources(plan); err != nil && !f.recorded.given() { // whose files are made later
		return usage(err)
	}
	for _, directive := range f.ignored {
		a.out.note("%s: %q means nothing to pilots and is passed over\n", f.script, directive)
	}
	if f.dryRun {
		return errors.Join(a.out.printPlan(plan), a.dryRun(ctx, f, plan))
	}
	return a.withQueue(func(c *clients) error {
		files, err := a.externalFiles(ctx, c, f, plan)
		if err != nil {
			return err
		}
		submitted, err := a.sendPlan(ctx, c.tasks, f, plan, files)
		if err != nil {
			return err
		}
		id := submitted.GetWorkflowId()
		if submitted.GetExisted() && f.key != "" {
			a.out.note("the key %q was used before: nothing new was submitted; %s is what came under it then\n", f.key, id)
		}
		switch {
		case f.parsable:
			_, _ = fmt.Fprintln(a.out.stdout, id)
		case a.out.output != "table" && !f.wait:
			return a.out.printJSON(submitted)
		default:
			verb := "submitted"
			if submitted.GetExisted() && f.key != "" {
				verb = "submitted before:"
			}
			a.out.say("%s %s (%s): %s", verb, id, plan.Name, task.Counted(submitted.GetTasks(), "task"))
			if submitted.GetReused() > 0 {
				a.out.say(", %d taken over from an earlier run (--fresh runs all)", submitted.GetReused())
			}
			a.out.say("%s\n", runAgain(submitted))
		}
		if !f.wait {
			return nil
		}
		return a.waitWorkflow(ctx, c, id, wait{quiet: f.parsable, timeout: f.timeout})
	})
}

// runAgain says what is run again although an earlier run has done it.
func runAgain(submitted *pb.SubmitWorkflowResponse) string {
	if n := submitted.GetAgain(); n > 0 {
		return fmt.Sprintf(", %d run again because files of an earlier run have gone (%.1f CPU hours then)", n, submitted.GetAgainCpu().AsDuration().Hours())
	}
	return ""
}

// dryRun says what of a workflow would be taken over from an earlier run, where a queue
// is known and nothing need be uploaded first.
func (a *app) dryRun(ctx context.Context, f *submitFlags, plan *workflow.Plan) error {
	if a.out.output != "table" || slices.ContainsFunc(plan.Files, func(file workflow.ExternalFile) bool { return file.Source != "" }) {
		return nil
	}
	c, err := a.connect()
	if err != nil {
		return nil // it needs none
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, cataloguePatience)
	defer cancel()
	files, err := a.externalFiles(ctx, c, f, plan)
	if err != nil {
		return err
	}
	request := &pb.SubmitWorkflowRequest{
		Name: plan.Name, AllowMissing: f.allowMissing, Fresh: f.fresh, Files: files, Outputs: plan.Outputs, DryRun: true,
	}
	for _, t := range plan.Tasks {
		encoded := taskpb.Task(t)
		encoded.Id = "/" + t.ID.Name()
		request.Tasks = append(request.Tasks, encoded)
	}
	return a.lookAt(ctx, c.tasks, request)
}

// lookAt has the queue say what it would take over of a workflow. What keeps it from that
// is said, too: of a plan that the queue would refuse as an error.
func (a *app) lookAt(ctx context.Context, tasks pb.TaskServiceClient, request *pb.SubmitWorkflowRequest) error {
	var submitted *pb.SubmitWorkflowResponse
	var err error
	if size := proto.Size(request); size > dial.MaxToQueue {
		err = fmt.Errorf("the workflow has %s in all, and the queue looks at %s at once; submit sends it in parts", task.Bytes(size), task.Bytes(dial.MaxToQueue))
	} else {
		submitted, err = tasks.SubmitWorkflow(ctx, request)
	}
	s, answered := statusOf(err)
	switch {
	case err == nil:
		a.out.say("%s, %d taken over from an earlier run%s\n", task.Counted(submitted.GetTasks(), "task"), submitted.GetReused(), runAgain(submitted))
	case answered && s.Code() == codes.InvalidArgument:
		return err
	case answered && s.Code() == codes.Unavailable: // it needs no queue
	default:
		a.out.note("The queue does not say what it would take over from an earlier run: %v\n", err)
	}
	return nil
}

func (o *console) printPlan(plan *workflow.Plan) error {
	tasks := make([]*pb.Task, len(plan.Tasks))
	for i, t := range plan.Tasks {
		tasks[i] = taskpb.Task(t)
	}
	return o.print(tasks, []string{"TASK", "INPUTS", "OUTPUTS", "COMMAND"}, rowsOf(plan.Tasks, func(t task.Task) []any {
		return []any{t.ID.Name(), len(t.Inputs), len(t.Outputs), shorten(commandText(t.Shell, t.Argv), 60)}
	}))
}

func shorten(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= most {
		return text
	}
	return text[:most-3] + "..."
}

// How much travels in one call: the queue refuses more than 64 MiB.
const (
	partTasks = 1000
	partFiles = 10_000
	partBytes = 16 << 20 // of tasks, but for the last one
)

// sendPlan submits a plan in parts under one idempotency key, so that a part
// whose answer got lost can be sent again. Files come before what reads them.
func (a *app) sendPlan(ctx context.Context, tasks pb.TaskServiceClient, f *submitFlags, plan *workflow.Plan, files []*pb.File) (*pb.SubmitWorkflowResponse, error) {
	key := f.key
	if key == "" {
		key = rand.Text()
	}
	outputs, left := plan.Outputs, plan.Tasks
	for part := int32(0); ; part++ {
		request := &pb.SubmitWorkflowRequest{
			IdempotencyKey: key, Name: plan.Name, Part: part, Outputs: outputs,
			AllowMissing: f.allowMissing, Fresh: f.fresh, Group: f.group, KeepIntermediates: f.keep,
		}
		request.Files, files, outputs = files[:min(len(files), partFiles)], files[min(len(files), partFiles):], nil
		for bytes := 0; len(files) == 0 && len(left) > 0 && len(request.Tasks) < partTasks && bytes < partBytes; left = left[1:] {
			encoded := taskpb.Task(left[0])
			encoded.Id = "/" + left[0].ID.Name()
			request.Tasks = append(request.Tasks, encoded)
			bytes += proto.Size(encoded)
		}
		request.More = len(files)+len(left) > 0
		var reply *pb.SubmitWorkflowResponse
		err := a.out.again(ctx, func() (err error) {
			reply, err = tasks.SubmitWorkflow(ctx, request)
			return err
		})
		if err != nil {
			return nil, err
		}
		if !request.GetMore() {
			return reply, nil
		}
	}
}

// externalFiles uploads sources where that is wanted and describes all files.
func (a *app) externalFiles(ctx context.Context, c *clients, f *submitFlags, plan *workflow.Plan) ([]*pb.File, error) {
	var files []*pb.File
	var sources []workflow.ExternalFile
	for _, file := range plan.Files {
		if file.Source != "" {
			sources = append(sources, file)
			continue
		}
		described := task.File{LFN: task.LFN(file.Name), Size: file.Size, Adler32: file.Adler32, Digest: file.Digest, Exec: file.Exec}
		for site, url := range file.At {
			described.Replicas = append(described.Replicas, task.Replica{Site: site, URL: url})
		}
		files = append(files, taskpb.File(described))
	}
	if len(sources) == 0 {
		return files, nil
	}
	if !f.upload && f.file != "" {
		return nil, coded(exitUsage, "%s with a local source, %s first: add --upload to put such files to the storage elements", task.Counted(len(sources), "file"), sources[0].Name)
	}
	if err := f.recorded.make(); err != nil {
		return nil, err
	}
	uploaded, err := a.uploadSources(ctx, c, sources, f.sites)
	return append(files, uploaded...), err
}
