package taskqueue

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Person is who makes a call. Workflows, their names and their results belong to
// the person who submitted them.
type Person struct {
	Name   string
	Groups []string
	Admin  bool // of the VO: sees and changes what all have
	Looks  bool // sees what all have
}

const (
	// AdminPerson is the person of accesses for admins that name none, and the
	// owner of the workflows from before workflows had owners.
	AdminPerson = "admin"
	// Everybody as Workflow.Group: all may look into it and take over its results.
	Everybody = "*"
)

// Sees tells whether a person may look into a workflow: at its tasks, their logs
// and its files, and whether later runs of the person take over its results.
func (p Person) Sees(w *Workflow) bool { return p.Looks || w.Group == Everybody || p.Changes(w) }

// Changes tells whether a person may cancel and retry a workflow.
func (p Person) Changes(w *Workflow) bool { return p.Admin || p.Name == w.Owner || p.in(w.Group) }

func (p Person) in(group string) bool {
	return group != "" && group != Everybody && (p.Admin || slices.Contains(p.Groups, group))
}

// shares refuses a person who would share something with a group of others.
func (p Person) shares(group string) error {
	if group == "" || p.in(group) {
		return nil
	}
	return fmt.Errorf("%w: you are not in group %s: share with a group of yours", ErrRefused, group)
}

// key keeps the idempotency keys of persons apart.
func (p Person) key(key string) string {
	if key == "" {
		return ""
	}
	return p.Name + "\x00" + key
}

// Holder is the person whose access a grant is. Those that name none, as all did
// once, are told apart by their labels, and if they are read-only look at everything.
func (g *Grant) Holder() Person {
	p := Person{Name: g.Person, Groups: g.Groups, Admin: g.Role == "admin", Looks: g.Role == "read-only" && g.Person == ""}
	switch {
	case p.Name != "":
	case p.Admin:
		p.Name = AdminPerson
	case g.Label != "":
		p.Name = g.Label
	default:
		p.Name = g.ID
	}
	return p
}

func errNotYours(w *Workflow) error {
	return fmt.Errorf("%w: workflow %s belongs to %s, who has not shared it with you", ErrRefused, w.ID, w.Owner)
}

// MaySee refuses a person who may not look into a workflow.
func (p Person) MaySee(w *Workflow) error {
	if !p.Sees(w) {
		return errNotYours(w)
	}
	return nil
}

// MayChange refuses a person who may not cancel and retry a workflow.
func (p Person) MayChange(w *Workflow) error {
	switch {
	case p.Changes(w):
		return nil
	case p.Sees(w):
		return fmt.Errorf("%w: workflow %s belongs to %s; you may look at it only", ErrRefused, w.ID, w.Owner)
	}
	return errNotYours(w)
}

// MayChangeFile refuses a person who may neither add copies of a file that is
// registered for all nor remove it. Those from before files had owners are an admin's.
func (p Person) MayChangeFile(f *FileRecord) error {
	if p.Changes(&Workflow{Owner: f.Owner, Group: f.Group}) {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to %s: choose another name", ErrRefused, f.LFN, cmp.Or(f.Owner, AdminPerson))
}

const (
	// namesakes bounds how many workflows of a name are looked through for one that
	// a person may look into.
	namesakes = 256
	namePage  = 16
)

// eachNamed calls next with workflows of an owner ("": of anybody) and a name,
// newest first, until it returns false.
func eachNamed(t *Turn, owner, name string, next func(*Workflow) bool) error {
	after := task.WorkflowID("")
	for range namesakes / namePage {
		runs, err := t.Workflows().List(owner, name, after, namePage)
		if err != nil {
			return err
		}
		for i := range runs {
			if !runs[i].Deleted && !next(&runs[i]) {
				return nil
			}
		}
		if len(runs) < namePage {
			return nil
		}
		after = runs[len(runs)-1].ID
	}
	return nil
}

// NewestNamed returns the newest workflow of a name: of the person's own, else of
// those that the person may look into, else of all. It is nil if there is none.
func (p Person) NewestNamed(t *Turn, name string) (found *Workflow, err error) {
	for _, owner := range []string{p.Name, ""} {
		seen := false
		err = eachNamed(t, owner, name, func(w *Workflow) bool {
			if seen = p.Sees(w); seen || found == nil {
				found = w
			}
			return !seen
		})
		if err != nil || seen {
			return found, err
		}
	}
	return found, nil
}

// metaOwned is set once all workflows have owners.
const metaOwned = "workflows have owners"

// GiveToAdmin gives a page of the workflows from before workflows had owners to the
// admin, readable by all, and returns the last one of them: the next page comes
// after it. It returns "" once all have owners. What was the owner before keeps
// idempotency keys apart, so that a submission may go on.
//
// Errors: ErrWorkflowGone (begin from the start).
func (r *Rules) GiveToAdmin(t *Turn, after task.WorkflowID) (last task.WorkflowID, err error) {
	q := r.open(t)
	defer q.close(&err)
	if len(read(q.Meta().Get(metaOwned))) > 0 {
		return "", nil
	}
	page := read(q.Workflows().List("", "", after, q.config.Workflow.SweepPage))
	for i := range page {
		w := &page[i]
		if w.Group == Everybody {
			continue // it has one since a start that was interrupted
		}
		w.Key = Person{Name: w.Owner}.key(w.Key)
		w.Owner, w.Group = AdminPerson, Everybody
	}
	saveAll(page, q.Workflows().Save)
	if len(page) == 0 {
		check(q.Meta().Set(metaOwned, []byte{1}))
		return "", nil
	}
	return page[len(page)-1].ID, nil
}
