package pilot

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/task"
)

// replication has a master's replica policies decide (002, 003), from what
// pilots say that they have of the files of listed tasks. It is empty where
// the site has no policies.
type replication struct {
	text     string // that the policies were read from
	policies replica.Chain
	files    map[task.FileKey]*tracked
	kept     int // of them, those that no listed task reads
	numbers  uint64
	launched map[uint64]*held // by a plan; by the number that policies know them by
	claimed  map[uint64]*held // by a plan: nobody else may have them
	reserved map[task.PilotID]bool
	began    time.Time // when the last session was
	due      time.Time // when the next one is; zero: nothing has changed
}

// tracked is a file of listed tasks, or one that was copied for such.
type tracked struct {
	file    task.File
	readers int // listed tasks
	at      map[task.PilotID]*copyAt
}

// copyAt is a file at a pilot.
type copyAt struct {
	complete bool      // it is there, as far as the pilot has told
	ordered  time.Time // when the pilot was told to copy it; zero: it has answered, or was not
	made     bool      // by such an order
	used     time.Time // when a task that reads it was last given to the pilot
}

func (c *copyAt) present() bool { return c.complete || !c.ordered.IsZero() }

// maxKept bounds the files that are tracked although no listed task reads them.
const maxKept = 10_000

// followPolicies takes the replica policies of the settings. A change begins
// anew: plans are forgotten, copies stay where they are.
func (m *Master) followPolicies() {
	r := &m.replication
	if r.text == m.settings.Replicate {
		return
	}
	m.dropPolicies()
	// A text that this version cannot read comes from a later queue.
	chain, err := replica.ParseChain(m.settings.Replicate)
	if err != nil || len(chain) == 0 {
		return
	}
	*r = replication{
		text: m.settings.Replicate, policies: chain, files: make(map[task.FileKey]*tracked), launched: make(map[uint64]*held),
		numbers: r.numbers,
	}
	for _, no := range sortedKeys(m.list.entries) {
		m.track(m.list.entries[no])
	}
	for _, id := range sortedKeys(m.members) {
		if w := m.members[id]; w.row.listed {
			m.wantRow(w) // it may have told what it has before this master wanted to know
		}
	}
}

// dropPolicies gives back what plans have taken, and forgets the policies.
func (m *Master) dropPolicies() {
	before := m.replication
	m.replication = replication{numbers: before.numbers}
	for _, no := range sortedKeys(before.claimed) {
		m.offerAgain(before.claimed[no])
	}
	for _, id := range sortedKeys(before.reserved) {
		if w := m.members[id]; w != nil {
			m.refreshPlaces(w)
		}
	}
}

// offerAgain lets everybody have a task that was claimed.
func (m *Master) offerAgain(h *held) {
	if m.held[h.Task.ID] == h && h.no != 0 {
		m.matrix.SetReady(h.no, h.phase == ready)
		m.unsolved = true
	}
}

// replicationChanged has the policies look at the site again.
func (m *Master) replicationChanged() {
	r := &m.replication
	if len(r.policies) == 0 || !r.due.IsZero() {
		return
	}
	r.due = r.began.Add(m.config.SessionPause(len(m.list.entries), len(m.members)))
	if r.due.Before(m.now) {
		r.due = m.now
	}
}

// track follows the files of a listed task.
func (m *Master) track(entry *matcher.ListEntry) {
	r := &m.replication
	if r.files == nil {
		return
	}
	for i := range entry.Files {
		key := entry.Files[i].Key
		t := r.files[key]
		if t == nil {
			t = &tracked{at: make(map[task.PilotID]*copyAt)}
			r.files[key] = t
		} else if t.readers == 0 {
			r.kept--
			for _, c := range t.at {
				c.complete = false // pilots tell again what they have of listed files
			}
		}
		t.readers++
		if k := m.files[entry.Files[i].LFN]; k != nil {
			t.file = k.file
		}
	}
}

// untrack ends that. What was copied for tasks is remembered, for the room that
// it takes, and everything while there are plans: they hold data sets together
// of which some files are read by tasks that have begun.
func (m *Master) untrack(entry *matcher.ListEntry) {
	r := &m.replication
	for i := range entry.Files {
		key := entry.Files[i].Key
		t := r.files[key]
		if t == nil {
			continue
		}
		if t.readers--; t.readers > 0 {
			continue
		}
		r.kept++
		if !t.copied() && len(r.reserved) == 0 || r.kept > maxKept {
			delete(r.files, key)
			r.kept--
		}
	}
}

func (t *tracked) copied() bool {
	for _, c := range t.at {
		if c.made {
			return true
		}
	}
	return false
}

// copyOf is a tracked file at a pilot, made when nothing is known of it.
func (t *tracked) copyOf(pilot task.PilotID) *copyAt {
	c := t.at[pilot]
	if c == nil {
		c = &copyAt{}
		t.at[pilot] = c
	}
	return c
}

// has takes from a whole row what files its pilot has.
func (r *replication) has(row *matcher.Row) {
	for _, t := range r.files {
		if c := t.at[row.Pilot]; c != nil && t.readers > 0 {
			c.complete = false
		}
	}
	r.moved(row.Pilot, row.Files, nil)
}

// moved takes from a change of a row which files have come and gone.
func (r *replication) moved(pilot task.PilotID, came, left []task.FileKey) {
	for _, key := range came {
		if t := r.files[key]; t != nil {
			c := t.copyOf(pilot)
			c.complete, c.ordered = true, time.Time{}
		}
	}
	for _, key := range left {
		if t := r.files[key]; t != nil {
			if c := t.at[pilot]; c != nil && c.ordered.IsZero() {
				delete(t.at, pilot)
			}
		}
	}
}

// read notes that a pilot has been given a task, whose files it uses.
func (m *Master) read(w *member, entry *matcher.ListEntry) {
	if m.replication.files == nil || entry == nil {
		return
	}
	for i := range entry.Files {
		if t := m.replication.files[entry.Files[i].Key]; t != nil {
			if c := t.at[w.id]; c != nil {
				c.used = m.now
			}
		}
	}
}

// replicasWithout forgets a pilot that is gone.
func (m *Master) replicasWithout(pilot task.PilotID) {
	for _, t := range m.replication.files {
		delete(t.at, pilot)
	}
	m.replicationChanged()
}

// takeReplicated takes a pilot's answers to orders. One that could not copy is
// left alone for a while: plans go elsewhere.
func (m *Master) takeReplicated(w *member, answers []ReplicatedAnswer) {
	for _, answer := range answers {
		if answer.Copied {
			m.outbox.replicas.Add(task.ReplicaSum{Files: 1, Bytes: answer.Bytes})
			m.syncSoon(m.config.SyncEvery)
		}
		if answer.Failure != "" {
			w.copyless = m.now.Add(m.config.ReplicaRest)
		}
		t := m.replication.files[answer.Key]
		if t == nil {
			continue
		}
		switch c := t.copyOf(w.id); {
		case answer.Failure == "":
			c.complete, c.ordered = true, time.Time{}
		case c.complete:
			c.ordered = time.Time{}
		default:
			delete(t.at, w.id)
		}
	}
	if len(answers) > 0 {
		m.replicationChanged()
	}
}

// passLostCopies gives up orders that were not answered for long: they, or the
// answers, were lost, and the policies decide again. A pilot that is copying
// still takes no harm from being told twice.
func (m *Master) passLostCopies() {
	for _, t := range m.replication.files {
		for pilot, c := range t.at {
			if c.ordered.IsZero() || m.now.Sub(c.ordered) < m.config.AuditAfter {
				continue
			}
			if c.ordered = (time.Time{}); !c.complete {
				delete(t.at, pilot)
			}
			m.replicationChanged()
		}
	}
}
