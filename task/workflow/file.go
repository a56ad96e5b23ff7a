package workflow

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// What the first two keys of a file must say.
const (
	APIVersion = "pilotage/v1"
	Kind       = "Workflow"
)

// File is a workflow file as it was written, before expansion. The comments
// on its fields, and on those of the types below, are the reference in
// docs/workflow.md; the tags hold the key, the default and the limits.
type File struct {
	// Version of the format: always `pilotage/v1`.
	APIVersion Text `key:"apiVersion" required:"true" const:"pilotage/v1"`
	// Always `Workflow`.
	Kind Text `key:"kind" required:"true" const:"Workflow"`
	// Name of the workflow. Submitting a workflow of the same name again runs only what is new, changed or not done.
	Name Text `key:"name" required:"true" form:"name"`
	// What tasks get that do not say otherwise; each key of a task replaces the one here, except that `env` is merged by variable.
	Defaults Settings `key:"defaults"`
	// Files that exist before the workflow runs, by logical file name.
	Files Map[Source] `key:"files" noun:"file" expands:"range"`
	// The tasks, by name. Their order in the file does not matter: a task runs when its inputs exist.
	Tasks Map[TaskTemplate] `key:"tasks" required:"true" noun:"task"`
	// Files to keep on a storage element and to fetch with `pilotage workflow outputs`.
	Outputs List `key:"outputs" default:"every output that no task reads" expands:"range"`

	source string // the text, for excerpts in errors
	path   string // as given to Parse
}

// Settings are what a task can say and what defaults can say for all tasks.
type Settings struct {
	// Further attempts after a failed one.
	Retries Value[int] `key:"retries" default:"3" min:"0" max:"100"`
	// Longest time that one attempt may run; after it the payload is killed and the attempt has failed.
	Walltime Value[time.Duration] `key:"walltime" default:"24h" min:"1ms" max:"8760h"`
	ResourceSettings
	// Environment variables of the payload. Names that begin with `PILOTAGE_` are set by the pilot and refused here.
	Env Map[Text] `key:"env" noun:"env" max:"256 variables" expands:"variables"`
	// What a pilot must fulfil to run the task: a CEL expression over `task`, `pilot` and `files`. It is not expanded, so that all tasks of a `foreach` stay one class.
	Require Text `key:"require" default:"every pilot will do" max:"8KiB"`
	// Which pilots to prefer: the name of a ranking policy or a CEL expression that gives a number. It is not expanded.
	Rank Text `key:"rank" default:"locality" max:"8KiB"`
	// The folder of an unpacked image at the nodes, e.g. below `/cvmfs/unpacked.cern.ch`, in which the payload runs: its root file system, read-only. Sites say in which folders images may lie (`pilot --images`). It is not expanded.
	Container Text `key:"container" default:"what the pilot has" max:"1KiB"`
	// What limits the task, `cpu` or `io`: a hint for ranks that balance what runs on a node. With `bound: io` goes `rank: -pilot.io_bound`, with `bound: cpu` goes `rank: -pilot.cpu_bound`.
	Bound Text `key:"bound" default:"no hint" oneof:"cpu io"`
	// The queue that the task is submitted to: sites whose solver is `dad` serve queues in turn, one task each.
	Queue Text `key:"queue" default:"the queue without name" max:"64B"`
	// Tasks of higher priority are handed out first.
	Priority Value[int] `key:"priority" default:"0" min:"-1000000" max:"1000000"`
}

// ResourceSettings are what a task reserves of its pilot: task.AllResources, by
// name.
type ResourceSettings struct {
	// CPU cores to reserve.
	Cores Value[int] `key:"cores" default:"1" min:"1" max:"4096"`
	// Memory to reserve, summed over all processes of the payload. A payload that uses more than 1.2 times as much is killed.
	Memory Value[task.Bytes] `key:"memory" default:"512MiB" min:"1B" max:"1024TiB"`
	// Space to reserve for the work folder, without cached inputs, and for what the pilot keeps of stdout and stderr. Each file and folder beyond the first 1,000 counts at least 4 KiB. A payload that uses more than 1.2 times as much is killed.
	Disk Value[task.Bytes] `key:"disk" default:"1GiB" min:"0B" max:"1024TiB"`
	// GPUs to reserve, whole devices of the pilot. The payload finds them in `CUDA_VISIBLE_DEVICES` and `ROCR_VISIBLE_DEVICES`.
	GPUs Value[int] `key:"gpus" default:"0" min:"0" max:"1024"`
}

// merge fills in what a task does not say.
func (r *ResourceSettings) merge(defaults ResourceSettings) {
	fill(&r.Cores, defaults.Cores, task.DefaultCores)
	fill(&r.Memory, defaults.Memory, task.DefaultMemory)
	fill(&r.Disk, defaults.Disk, task.DefaultDisk)
	fill(&r.GPUs, defaults.GPUs, 0)
}

func (r ResourceSettings) resources() task.Resources {
	return task.Resources{Cores: r.Cores.Value, Memory: r.Memory.Value, Disk: r.Disk.Value, GPUs: r.GPUs.Value}
}

// TaskTemplate describes one task or, with foreach, many that look alike.
type TaskTemplate struct {
	// Variables of the task. The task is repeated for every value, or with several variables for every combination, in the order written, the last one changing fastest.
	Foreach Map[List] `key:"foreach" noun:"foreach" max:"8 variables" expands:"range"`
	// Files that the task reads: a list of names, or a map from name to place in the work folder.
	Inputs FileNames `key:"inputs" max:"10,000 files" expands:"both"`
	// Program and arguments, run without a shell. A word with a range becomes several words. Give either `argv` or `shell`.
	Argv List `key:"argv" max:"4,096 words" expands:"both"`
	// Commands for `/bin/sh -c`. Give either `argv` or `shell`.
	Shell Text `key:"shell" max:"128KiB" expands:"variables"`
	// Files that the task must leave behind: a list of names, or a map from name to place in the work folder. An attempt that leaves one out has failed.
	Outputs FileNames `key:"outputs" max:"10,000 files" expands:"both"`

	Settings
}

// Source says where a file that exists comes from: exactly one of source and at.
type Source struct {
	// Path of the file on the machine that submits, relative to the workflow file. `pilotage submit --upload` puts it on a storage element.
	Source Text `key:"source" expands:"range"`
	// Where the file already is: the URL (`https://`, `http://` or `file://`) of its copy at each site.
	At Map[Text] `key:"at" noun:"site" expands:"range"`
	// Size in bytes, checked when the file is read.
	Size Value[task.Bytes] `key:"size" default:"not checked" min:"0B" max:"1024TiB"`
	// Adler-32 checksum as 8 hex digits, checked when the file is read.
	Adler32 Text `key:"adler32" default:"not checked" form:"adler32"`
	// BLAKE3-256 hash as 64 hex digits, checked when the file is read.
	Digest Text `key:"digest" default:"filled in when first read" form:"digest"`
	// Makes the file executable in work folders.
	Executable Value[bool] `key:"executable" default:"false"`
}

// Text is a piece of text with its place.
type Text = Value[string]

// Value is a value with its place in the file. Set is false when the key is
// not given.
type Value[T any] struct {
	Value T
	Set   bool
	At    Position
}

// Entry is a key and its value in a map.
type Entry[T any] struct {
	Key   Text
	Value T
}

// Map is a map in the order of the file; no key occurs twice.
type Map[T any] struct {
	Entries []Entry[T]
	Set     bool
	At      Position
}

// List is a list of texts; where a single text is written it has one item.
type List struct {
	Items []Text
	Set   bool
	At    Position
}

// FileName names a file and its place in the work folder.
type FileName struct {
	Name  Text // logical file name
	Place Text // path in the work folder; the name itself in the short form
}

// FileNames are files that a task reads or leaves behind.
type FileNames struct {
	Items []FileName
	Set   bool
	At    Position
}
