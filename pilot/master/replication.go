package master

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// replication has a master's replica policies decide (002, 003), from what
// pilots say that they have of the files of listed tasks. It is empty where
// the site has no policies.
type replication struct {
	text     string // that the policies were read from
	policies replica.Chain
	files    map[task.FileKey]*tracked
	at       map[task.PilotID]map[task.FileKey]*copyAt // the same copies, by pilot
	kept     int                                       // of files, those that no listed task reads
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
func (site *site) followPolicies(at *step) {
	r := &site.replication
	if r.text == at.settings.Replicate {
		return
	}
	site.dropPolicies(at)
	// A text that this version cannot read comes from a later queue.
	chain, err := replica.ParseChain(at.settings.Replicate)
	if err != nil || len(chain) == 0 {
		return
	}
	*r = replication{
		text: at.settings.Replicate, policies: chain, files: make(map[task.FileKey]*tracked),
		at: make(map[task.PilotID]map[task.FileKey]*copyAt), launched: make(map[uint64]*held), numbers: r.numbers,
	}
	for _, entry := range byKey(site.list.entries) {
		site.replication.track(&site.handout, entry)
	}
	for _, w := range byKey(site.roster.members) {
		if w.row.listed {
			at.wantRow(w) // it may have told what it has before this master wanted to know
		}
	}
}

// dropPolicies gives back what plans have taken, and forgets the policies.
func (site *site) dropPolicies(at *step) {
	before := site.replication
	site.replication = replication{numbers: before.numbers}
	for _, h := range byKey(before.claimed) {
		site.placing.offerAgain(&site.handout, h)
	}
	for _, id := range slices.Sorted(maps.Keys(before.reserved)) {
		if w := site.roster.members[id]; w != nil {
			site.refreshPlaces(at, w)
		}
	}
}

// offerAgain lets everybody have a task that was claimed.
func (placing *placing) offerAgain(hand *handout, h *held) {
	if hand.held[h.Task.ID] == h && h.no != 0 {
		placing.matrix.SetReady(h.no, h.phase == ready)
		placing.unsolved = true
	}
}

// replicationChanged has the policies look at the site again.
func (r *replication) replicationChanged(at *step, roster *roster, list *list) {
	if len(r.policies) == 0 || !r.due.IsZero() {
		return
	}
	r.due = r.began.Add(at.config.Replicas.SessionPause(len(list.entries), len(roster.members)))
	if r.due.Before(at.now) {
		r.due = at.now
	}
}

// track follows the files of a listed task.
func (r *replication) track(hand *handout, entry *matcher.ListEntry) {
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
		if k := hand.files[entry.Files[i].LFN]; k != nil {
			t.file = k.file
		}
	}
}

// untrack ends that. What was copied for tasks is remembered, for the room that
// it takes, and everything while there are plans: they hold data sets together
// of which some files are read by tasks that have begun.
func (r *replication) untrack(entry *matcher.ListEntry) {
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
			r.forget(key)
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
func (r *replication) copyOf(key task.FileKey, pilot task.PilotID) *copyAt {
	t := r.files[key]
	c := t.at[pilot]
	if c == nil {
		c = &copyAt{}
		t.at[pilot] = c
		if r.at[pilot] == nil {
			r.at[pilot] = make(map[task.FileKey]*copyAt)
		}
		r.at[pilot][key] = c
	}
	return c
}

// drop forgets a tracked file at a pilot.
func (r *replication) drop(key task.FileKey, pilot task.PilotID) {
	if t := r.files[key]; t != nil {
		delete(t.at, pilot)
	}
	delete(r.at[pilot], key)
}

// forget tracks a file no more.
func (r *replication) forget(key task.FileKey) {
	for pilot := range r.files[key].at {
		delete(r.at[pilot], key)
	}
	delete(r.files, key)
}

// has takes from a whole row what files its pilot has.
func (r *replication) has(row *matcher.Row) {
	for key, c := range r.at[row.Pilot] {
		if r.files[key].readers > 0 {
			c.complete = false
		}
	}
	r.moved(row.Pilot, row.Files, nil)
}

// moved takes from a change of a row which files have come and gone.
func (r *replication) moved(pilot task.PilotID, came, left []task.FileKey) {
	for _, key := range came {
		if r.files[key] != nil {
			c := r.copyOf(key, pilot)
			c.complete, c.ordered = true, time.Time{}
		}
	}
	for _, key := range left {
		if c := r.at[pilot][key]; c != nil && c.ordered.IsZero() {
			r.drop(key, pilot)
		}
	}
}

// read notes that a pilot has been given a task, whose files it uses.
func (r *replication) read(at *step, w *member, entry *matcher.ListEntry) {
	if r.files == nil || entry == nil {
		return
	}
	for i := range entry.Files {
		if c := r.at[w.id][entry.Files[i].Key]; c != nil {
			c.used = at.now
		}
	}
}

// replicasWithout forgets a pilot that is gone.
func (r *replication) replicasWithout(at *step, roster *roster, list *list, pilot task.PilotID) {
	for key := range r.at[pilot] {
		delete(r.files[key].at, pilot)
	}
	delete(r.at, pilot)
	r.replicationChanged(at, roster, list)
}

// takeReplicated takes a pilot's answers to orders. One that could not copy is
// left alone for a while: plans go elsewhere.
func (r *replication) takeReplicated(at *step, roster *roster, list *list, outbox *outbox, w *member, answers []message.ReplicatedAnswer) {
	if len(answers) == 0 {
		return
	}
	w.copying.lapses = 0
	for _, answer := range answers {
		if answer.Copied {
			outbox.replicas.Add(task.ReplicaSum{Files: 1, Bytes: answer.Bytes})
			outbox.syncSoon(at, at.config.Queue.Every)
		}
		if answer.Failure != "" {
			w.copying.copyless = at.now.Add(at.config.Replicas.Rest)
		}
		if r.files[answer.Key] == nil {
			continue
		}
		switch c := r.copyOf(answer.Key, w.id); {
		case answer.Failure == "":
			c.complete, c.ordered = true, time.Time{}
		case c.complete:
			c.ordered = time.Time{}
		default:
			r.drop(answer.Key, w.id)
		}
	}
	r.replicationChanged(at, roster, list)
}

// maxLapses is how often in a row a pilot may leave orders unanswered before
// plans go elsewhere: by then a file of a few gigabytes would have been copied.
const maxLapses = 5

// passLostCopies gives up orders that were not answered for long: they, or the
// answers, were lost, and the policies decide again. A pilot that is copying
// still takes no harm from being told twice. One that has not answered for some
// times is left alone for as long as it was waited for.
func (r *replication) passLostCopies(at *step, roster *roster, list *list) {
	for pilot, copies := range r.at {
		lapsed := false
		for key, c := range copies {
			if c.ordered.IsZero() || at.now.Sub(c.ordered) < at.config.Members.AuditAfter {
				continue
			}
			lapsed = true
			if c.ordered = (time.Time{}); !c.complete {
				r.drop(key, pilot)
			}
		}
		w := roster.members[pilot]
		if !lapsed || w == nil {
			continue
		}
		if w.copying.lapses++; w.copying.lapses >= maxLapses {
			w.copying.copyless = at.now.Add(time.Duration(w.copying.lapses) * at.config.Members.AuditAfter)
		}
		r.replicationChanged(at, roster, list)
	}
}
