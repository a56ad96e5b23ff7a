package pilot

import "github.com/pilotage-grid/pilotage/task"

// copies sees to it that a few other pilots hold the hand-out, so that a new
// master can go on although the queue is away (DESIGN section 4).
type copies struct {
	keepers map[task.PilotID]bool
	fresh   []task.LeaseID // not sent yet
	over    []task.LeaseID
}

func (c *copies) reset() { *c = copies{keepers: make(map[task.PilotID]bool)} }

func (c *copies) add(l task.Lease) { c.fresh = append(c.fresh, l.ID) }

func (c *copies) drop(id task.LeaseID) { c.over = append(c.over, id) }

func (c *copies) forget(pilot task.PilotID) { delete(c.keepers, pilot) }

// passCopies sends what is new to the keepers, and everything to a new one.
func (m *Master) passCopies() {
	c := &m.copies
	if len(c.keepers) < m.config.Copies {
		for _, id := range sortedKeys(m.pilots) {
			w := m.pilots[id]
			if id == m.self || c.keepers[id] || !w.described || w.draining {
				continue
			}
			c.keepers[id] = true
			m.tell(id, KeepCopy{Term: m.term, Leases: m.leaseCopies(sortedKeys(m.leases))})
			if len(c.keepers) == m.config.Copies {
				break
			}
		}
	}
	if len(c.fresh) == 0 && len(c.over) == 0 {
		return
	}
	message := KeepCopy{Term: m.term, Leases: m.leaseCopies(c.fresh), Drop: c.over}
	for _, id := range sortedKeys(c.keepers) {
		m.tell(id, message)
	}
	c.fresh, c.over = nil, nil
}

func (m *Master) leaseCopies(ids []task.LeaseID) []task.Lease {
	var leases []task.Lease
	for _, id := range ids {
		if l := m.leases[id]; l != nil {
			leases = append(leases, l.lease)
		}
	}
	return leases
}
