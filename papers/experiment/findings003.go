package experiment

import (
	"fmt"
	"time"
)

// findings holds the claims of 003 against the runs.
func (l *lab003) findings() []Finding {
	return []Finding{
		l.figure3Makespan(), l.figure3Speed(), l.newCopies(), l.alpha15(), l.slowerAtFirst(10), l.slowerAtFirst(5), l.fasterOnceCopied(10), l.fasterOnceCopied(5), l.twiceAsFast(),
	}
}

func (l *lab003) figure3Makespan() Finding {
	ratio := l.delayed.average(seconds) / l.fifo.average(seconds)
	return Finding{
		"makespan by locality over Torque alone (Fig. 3)", "about 1/10",
		fmt.Sprintf("%.2f (%.2f / %.2f s)", ratio, l.delayed.average(seconds), l.fifo.average(seconds)), Ratio(ratio, 0.1),
	}
}

func (l *lab003) figure3Speed() Finding {
	gain := l.delayed.average(megabytes) / l.fifo.average(megabytes)
	return Finding{"mean read speed (Fig. 3)", "more than 3 times", fmt.Sprintf("%.2f times", gain), If(gain > 3).And(Ratio(gain, 3))}
}

func (l *lab003) newCopies() Finding {
	f := Finding{"new copies at alpha 20, 15, 10, 5 (4.2)", "0, 1, 2, 3", "", Yes}
	for _, a := range alphas003 {
		made := len(l.shared[a.alpha].Copies)
		f.Ours += fmt.Sprintf(", %d", made)
		f.Same = f.Same.And(If(made == a.copies && len(l.atOnce[a.alpha].Copies) == a.copies))
	}
	f.Ours = f.Ours[2:]
	return f
}

func (l *lab003) alpha15() Finding {
	a, b := seconds(l.shared[15]), seconds(l.shared[20])
	return Finding{"alpha 15 is more efficient than 20 (Fig. 4)", "more efficient", fmt.Sprintf("%.2f s against %.2f s", a, b), More(b, a)}
}

// slowerAtFirst compares the tasks done until the copies are there.
func (l *lab003) slowerAtFirst(alpha int) Finding {
	copied := l.copied(alpha)
	own, none := doneBy(l.shared[alpha], copied), doneBy(l.shared[20], copied)
	return Finding{
		fmt.Sprintf("alpha %d is slower while copies are made (Fig. 4)", alpha), "slower at first",
		fmt.Sprintf("%d tasks done in the %.1f s, without copies %d", own, copied.Seconds(), none), More(float64(none), float64(own)),
	}
}

// copied is when the last copy has arrived.
func (l *lab003) copied(alpha int) time.Duration {
	copies := l.shared[alpha].Copies
	return copies[len(copies)-1].Over
}

// fasterOnceCopied compares rates: after the copies with alpha 20's.
func (l *lab003) fasterOnceCopied(alpha int) Finding {
	r, copied := l.shared[alpha], l.copied(alpha)
	after := float64(40-doneBy(r, copied)) / (r.Makespan - copied).Seconds()
	without := 40 / seconds(l.shared[20])
	return Finding{
		fmt.Sprintf("alpha %d is much faster once they are made (Fig. 4)", alpha), "much faster",
		fmt.Sprintf("%.1f tasks a second after it, %.1f without copies", after, without), Much(after, without),
	}
}

func (l *lab003) twiceAsFast() Finding {
	fastest, of := seconds(l.shared[20]), 20
	for _, a := range alphas003 {
		if own := seconds(l.shared[a.alpha]); own < fastest {
			fastest, of = own, a.alpha
		}
	}
	gain := seconds(l.shared[20]) / fastest
	return Finding{
		"replicas make it up to about twice as fast (section 6)", "about 2 times",
		fmt.Sprintf("%.2f times (alpha %d)", gain, of), Ratio(gain, 2),
	}
}
