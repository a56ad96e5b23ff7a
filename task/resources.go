package task

import (
	"fmt"
	"strings"
)

// Resources are what one task needs or what one pilot offers.
type Resources struct {
	Cores  int   // CPU cores
	Memory Bytes // resident memory, summed over the payload's descendants
	Disk   Bytes // work folder, without cached inputs
	GPUs   int   // whole devices
}

// Resource is one field of Resources. Whoever looks at resources one by one
// goes through AllResources, so that a further one is added in this file, in
// the protos and among a workflow file's settings, and nowhere else; a test
// counts the fields.
type Resource struct {
	Name   string // in expressions (task.NAME, pilot.NAME), workflow files and options
	InByte bool   // a size in bytes, else a count
	Least  int64  // that a task may ask for
	Most   int64  // that a task may ask for
	Get    func(Resources) int64
	Set    func(*Resources, int64)
}

// AllResources lists every resource, in the order in which people read them.
var AllResources = []Resource{
	{
		"cores", false, 1, MaxCores,
		func(r Resources) int64 { return int64(r.Cores) }, func(r *Resources, n int64) { r.Cores = int(n) },
	},
	{
		"memory", true, 1, int64(1024 * TiB),
		func(r Resources) int64 { return int64(r.Memory) }, func(r *Resources, n int64) { r.Memory = Bytes(n) },
	},
	{
		"disk", true, 0, int64(1024 * TiB),
		func(r Resources) int64 { return int64(r.Disk) }, func(r *Resources, n int64) { r.Disk = Bytes(n) },
	},
	{
		"gpus", false, 0, MaxGPUs,
		func(r Resources) int64 { return int64(r.GPUs) }, func(r *Resources, n int64) { r.GPUs = int(n) },
	},
}

// Text writes an amount of the resource for people.
func (r Resource) Text(amount int64) string {
	if r.InByte {
		return Bytes(amount).String()
	}
	return fmt.Sprint(amount)
}

// Fits tells whether need fits into r. It is asked for each task and pilot, so
// the fields are written out; so are those of Add, Sub and Max.
func (r Resources) Fits(need Resources) bool {
	return need.Cores <= r.Cores && need.Memory <= r.Memory && need.Disk <= r.Disk && need.GPUs <= r.GPUs
}

// Add returns r plus other.
func (r Resources) Add(other Resources) Resources {
	return Resources{r.Cores + other.Cores, r.Memory + other.Memory, r.Disk + other.Disk, r.GPUs + other.GPUs}
}

// Sub returns r minus other.
func (r Resources) Sub(other Resources) Resources {
	return Resources{r.Cores - other.Cores, r.Memory - other.Memory, r.Disk - other.Disk, r.GPUs - other.GPUs}
}

// Max returns the larger of r and other, each resource by itself.
func (r Resources) Max(other Resources) Resources {
	return Resources{
		max(r.Cores, other.Cores), max(r.Memory, other.Memory), max(r.Disk, other.Disk), max(r.GPUs, other.GPUs),
	}
}

// Lacking returns the first resource of which r has less than is needed.
func (r Resources) Lacking(need Resources) (lacking Resource, found bool) {
	for _, resource := range AllResources {
		if resource.Get(need) > resource.Get(r) {
			return resource, true
		}
	}
	return Resource{}, false
}

// String lists what there is, e.g. "4 cores, 8GiB memory, 20GiB disk".
func (r Resources) String() string {
	var parts []string
	for _, resource := range AllResources {
		amount := resource.Get(r)
		switch {
		case amount == 0:
		case resource.InByte:
			parts = append(parts, resource.Text(amount)+" "+resource.Name)
		default:
			parts = append(parts, Counted(amount, strings.TrimSuffix(resource.Name, "s")))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Validate checks that no resource is negative or beyond what exists.
func (r Resources) Validate() error {
	for _, resource := range AllResources {
		if amount := resource.Get(r); amount < 0 {
			return fmt.Errorf("%s is %d: it cannot be negative", resource.Name, amount)
		}
	}
	return nil
}

// validateNeed checks what a task asks for.
func (r Resources) validateNeed() error {
	for _, resource := range AllResources {
		if amount := resource.Get(r); amount < resource.Least || amount > resource.Most {
			return fmt.Errorf("%s is %s: give %s to %s", resource.Name, resource.Text(amount), resource.Text(resource.Least), resource.Text(resource.Most))
		}
	}
	return nil
}
