package master

import "github.com/pilotage-grid/pilotage/task"

// Tasks that make inputs of one reader are a company, which greedy gives to one
// pilot where other tasks are there for the rest (matcher, company): its reader
// then copies nothing. A company goes by the number of its reader; of several
// readers the oldest counts.

const (
	// companionInputs is how many files a task may read whose makers are kept
	// together: of more the last would be made late, one after the other.
	companionInputs = 4
	// companionLooks bounds the outputs of a task, and the readers of each, among
	// which its company is sought.
	companionLooks = 16
)

// join puts a listed task into its company, if it has one, and else out of any.
func (placing *placing) join(hand *handout, roster *roster, h *held) {
	reader := hand.readerOf(h)
	if reader == nil {
		placing.matrix.SetCompany(h.no, 0)
		return
	}
	placing.matrix.SetCompany(h.no, companyOf(reader))
	placing.tellHome(hand, roster, reader)
}

// rejoin puts the listed makers of a task's inputs into its company, where they
// may have been before it came, or into another one when it is gone.
func (placing *placing) rejoin(hand *handout, roster *roster, list *list, reader *held) {
	if !hasCompanySize(reader) {
		return
	}
	for _, input := range reader.Task.Inputs {
		k := hand.files[input.LFN]
		if k == nil {
			continue
		}
		for _, maker := range k.makers {
			if list.entries[maker.no] != nil {
				placing.join(hand, roster, maker)
			}
		}
	}
}

// companyOf is the number of the company that makes a task's inputs, never 0.
func companyOf(reader *held) uint64 { return reader.Age + 1 }

func hasCompanySize(reader *held) bool {
	n := len(reader.Task.Inputs)
	return n > 1 && n <= companionInputs
}

// readerOf is the oldest task that waits for a file of this one and for, or also
// for, what another makes; nil: there is none.
func (hand *handout) readerOf(h *held) (oldest *held) {
	for _, output := range h.Task.Outputs[:min(companionLooks, len(h.Task.Outputs))] {
		k := hand.files[output.LFN]
		if k == nil {
			continue
		}
		for _, r := range k.readers[:min(companionLooks, len(k.readers))] {
			if (oldest == nil || r.Age < oldest.Age) && r.phase == waiting && hasCompanySize(r) && hand.hasOtherMaker(r, h) {
				oldest = r
			}
		}
	}
	return oldest
}

// hasOtherMaker tells whether another task than h makes, or has made, an input
// of a reader.
func (hand *handout) hasOtherMaker(reader, h *held) bool {
	for _, input := range reader.Task.Inputs {
		k := hand.file(input.LFN)
		if !k.file.Producer.IsZero() && k.file.Producer.Task != h.Task.ID {
			return true
		}
		for _, maker := range k.makers {
			if maker != h {
				return true
			}
		}
	}
	return false
}

// tellHome tells the matrix who has begun the company of a reader. Where it was
// begun before stays its home until somebody else has more of it.
func (placing *placing) tellHome(hand *handout, roster *roster, reader *held) {
	if home := roster.home(hand, reader); home != "" {
		placing.matrix.SetHome(companyOf(reader), home)
	}
}

// home is the member that makes, or has made, most of a task's inputs, of equals
// the one that has the first; "": none does.
func (roster *roster) home(hand *handout, reader *held) (home task.PilotID) {
	made := make(map[task.PilotID]int)
	for _, input := range reader.Task.Inputs {
		at := roster.makesIt(hand.file(input.LFN))
		if at == "" {
			continue
		}
		if made[at]++; home == "" || made[at] > made[home] {
			home = at
		}
	}
	return home
}

// makesIt is the member that has made a file, or is to make it.
func (roster *roster) makesIt(k *known) task.PilotID {
	if maker := k.file.Producer.Pilot; roster.members[maker] != nil {
		return maker
	}
	for maker := range k.makerMembers() {
		return maker.id
	}
	return ""
}
