package taskqueue

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Fates are how the newest attempts at a site ended whose tasks had lost no pilot
// before: what a task does to its pilots again and again is its own. One in fateMemory
// of what was is forgotten with each further one. They are counted in fateUnits.
type Fates struct {
	Ended uint64 // with an outcome, or lost
	Lost  uint64 // of them, with their pilot
}

const (
	fateUnit   = 1 << 16
	fateMemory = 1 << 10
	// fateKnown is how many attempts, at the least, the share is taken of:
	// before, a loss would be a large part of all that is known.
	fateKnown = 50
)

func (f *Fates) add(lost bool) {
	f.Ended += fateUnit - f.Ended/fateMemory
	f.Lost -= f.Lost / fateMemory
	if lost {
		f.Lost += fateUnit
	}
}

// beside are the fates without so many losses, of which the cause is known.
func (f *Fates) beside(own int) Fates {
	units := min(f.Lost, uint64(own)*fateUnit)
	return Fates{Ended: f.Ended - units, Lost: f.Lost - units}
}

// lossesTooMany is how many pilots a task may lose before it is held for the cause, where
// own of all losses came with those pilots: as many that, at the rate at which the site
// loses attempts anyway, there is a chance of less than QuarantineChance for one of all
// its tasks, and QuarantineLosses at the least. Where whole nodes are taken away all the
// time, three are no evidence; where none are, they are.
func (c *RetryConfig) lossesTooMany(f *Fates, own int) int {
	others := f.beside(own)
	known := max(fateKnown, float64(others.Ended)/fateUnit)
	share := float64(others.Lost) / fateUnit / known
	if share <= 0 {
		return c.QuarantineLosses
	}
	if share >= 1 {
		return c.QuarantineMost
	}
	byChance := math.Ceil(math.Log(c.QuarantineChance/known) / math.Log(share))
	return int(min(max(float64(c.QuarantineLosses), byChance), float64(c.QuarantineMost)))
}

// countLoss books that attempts of LEASED tasks vanished with one pilot, and of how many
// the site's Fates have it. Those bear it that had lost most pilots before: beside a task
// that kills its pilots others are lost, too. The site's master runs them again itself; a
// task that takes pilot after pilot with it, more than vanish there anyway, is put aside.
func (j *outcomes) countLoss(site *SiteRecord, ran []*TaskState, first int) {
	most := 0
	for _, s := range ran {
		most = max(most, s.Losses)
	}
	suspects := slices.DeleteFunc(ran, func(s *TaskState) bool { return s.Losses < most })
	for i, s := range suspects {
		s.Losses++
		s.LostBeside += first
		j.tasks.touch(s.ID)
		switch {
		case j.killsPilots(site, s, len(suspects) == 1):
			site.Fates = site.Fates.beside(s.LostBeside)
			j.life.revoke(s.Site, s.Lease, s.ID, true)
			j.life.move(s, task.Quarantine, fmt.Sprintf("%s vanished while running it", task.Counted(s.Losses, "pilot")))
			j.life.ended = append(j.life.ended, s.ID)
		case i > 0 && most > 0 && !j.attempts.started(s):
			j.life.revoke(s.Site, s.Lease, s.ID, true)
			j.life.reopen(s, task.AttemptFailed, "it runs later than another task with which it has lost pilots")
			s.NotBefore = j.Clock.Add(time.Duration(i) * j.config.Retry.BackoffMax)
		}
	}
}

// killsPilots tells whether a task has lost too many pilots, the last of them as the only
// one that was suspected.
func (j *outcomes) killsPilots(site *SiteRecord, s *TaskState, alone bool) bool {
	retry := &j.config.Retry
	if s.Losses >= retry.QuarantineMost {
		return true
	}
	return alone && s.Losses >= retry.lossesTooMany(&site.Fates, s.LostBeside) && !j.oneNodesWord(s)
}
