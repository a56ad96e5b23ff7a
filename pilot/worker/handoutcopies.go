package worker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// handOutCopies are what a worker holds of the site's hand-outs for a master
// that may die.
type handOutCopies struct {
	leases map[task.LeaseID]*keptLease
	files  map[task.LFN]task.File
	heard  time.Time // when the master last spoke of them
}

type keptLease struct {
	lease task.Lease
	gone  map[task.ID]bool
}

func (k *handOutCopies) reset() {
	k.leases, k.files = make(map[task.LeaseID]*keptLease), make(map[task.LFN]task.File)
}

// keep carries out a KeepCopy.
func (k *handOutCopies) keep(now time.Time, m message.KeepCopy) {
	if m.Whole {
		k.reset()
	}
	k.heard = now
	for _, lease := range m.Leases {
		k.leases[lease.ID] = &keptLease{lease: lease, gone: make(map[task.ID]bool)}
	}
	for _, gone := range m.Gone {
		if kept := k.leases[gone.Lease]; kept != nil {
			kept.gone[gone.Task] = true
		}
	}
	for _, file := range m.Files {
		k.files[file.LFN] = file
	}
	for _, id := range m.Drop {
		delete(k.leases, id)
	}
	if len(m.Drop) > 0 {
		k.forgetFiles()
	}
}

// forgetFiles drops the files that no task of the hand-outs reads any more.
func (k *handOutCopies) forgetFiles() {
	read := make(map[task.LFN]bool)
	for _, kept := range k.leases {
		for _, leased := range kept.lease.Tasks {
			for _, input := range leased.Task.Inputs {
				read[input.LFN] = true
			}
		}
	}
	maps.DeleteFunc(k.files, func(name task.LFN, _ task.File) bool { return !read[name] })
}

// tell puts the copies into a state.
func (k *handOutCopies) tell(now time.Time, s *message.State) {
	if len(k.leases) == 0 {
		return
	}
	s.CopiesAge = now.Sub(k.heard)
	for _, kept := range inOrder(k.leases, cmp.Compare) {
		lease := kept.lease
		lease.Tasks = slices.DeleteFunc(slices.Clone(lease.Tasks), func(t task.LeasedTask) bool { return kept.gone[t.Task.ID] })
		s.Copies = append(s.Copies, lease)
	}
	s.CopyFiles = append(s.CopyFiles, inOrder(k.files, cmp.Compare)...)
}
