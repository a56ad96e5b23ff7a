package paper

import (
	"math"

	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/sim/manysites"
)

// over draws one curve a setting over time.
func (l *lab004) over(name, title, y string, of func(s, before *manysites.Sample) float64) *chart.Figure {
	f := &chart.Figure{Name: name, Title: title, X: "time (s)", Y: y}
	for i, r := range l.runs {
		curve := chart.Series{Name: l.settings[i].name}
		for k := 1; k < len(r.Samples); k++ {
			s := &r.Samples[k]
			curve.Points = append(curve.Points, chart.Point{X: s.At.Seconds(), Y: of(s, &r.Samples[k-1])})
		}
		f.Series = append(f.Series, curve)
	}
	return f
}

func (l *lab004) occupation() *chart.Figure {
	return l.over("many-slots", "Slots that run a payload", "of all slots (%)", func(s, _ *manysites.Sample) float64 {
		return 100 * float64(s.Busy) / float64(l.Sites*l.Pilots)
	})
}

func (l *lab004) requests() *chart.Figure {
	return l.over("many-requests", "Requests to the queue", "requests per second", func(s, before *manysites.Sample) float64 {
		return float64(s.Requests) / max((s.At-before.At).Seconds(), 1e-9)
	})
}

// eachHandOut draws the hand-outs as dots, a thousand a setting at the most.
func (l *lab004) eachHandOut(name, title, y string, of func(*manysites.HandOut) float64) *chart.Figure {
	f := &chart.Figure{Name: name, Title: title, X: "time (s)", Y: y, Dots: true}
	for i, r := range l.runs {
		dots := chart.Series{Name: l.settings[i].name}
		step := max(1, len(r.HandOuts)/1000)
		for k := 0; k < len(r.HandOuts); k += step {
			dots.Points = append(dots.Points, chart.Point{X: r.HandOuts[k].At.Seconds(), Y: of(&r.HandOuts[k])})
		}
		f.Series = append(f.Series, dots)
	}
	return f
}

func (l *lab004) handOuts() *chart.Figure {
	return l.eachHandOut("many-hand-outs", "Tasks in a hand-out", "tasks", func(h *manysites.HandOut) float64 { return float64(h.Tasks) })
}

func (l *lab004) latencies() *chart.Figure {
	return l.eachHandOut("many-latency", "From the call to the hand-out", "latency (ms)", func(h *manysites.HandOut) float64 { return h.Took.Seconds() * 1000 })
}

// delays draws how many slots waited no longer than so long.
func (l *lab004) delays() *chart.Figure {
	f := &chart.Figure{Name: "many-delay", Title: "Between two payloads of a slot", X: "no longer than (ms)", Y: "of all (%)", LogX: true}
	for i, r := range l.runs {
		curve := chart.Series{Name: l.settings[i].name}
		sum := 0
		for class, n := range r.DelayClass {
			sum += n
			curve.Points = append(curve.Points, chart.Point{X: math.Pow(2, float64(class)), Y: 100 * float64(sum) / float64(max(r.Delays, 1))})
			if sum == r.Delays {
				break
			}
		}
		f.Series = append(f.Series, curve)
	}
	return f
}
