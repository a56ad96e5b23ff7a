package experiment

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/papers/cluster"
)

// findings holds what 002's design promises (section 4) against the runs.
func (l *lab002) findings() []Finding {
	return []Finding{l.oneAtATime(), l.followsLoad(), l.localJobs(), l.lessTraffic(), l.fasterThanFCFS(), l.overwrites(), l.withDAD()}
}

// oneAtATime: one new replica per session (step 5).
func (l *lab002) oneAtATime() Finding {
	most := 0
	for _, r := range l.runs[plans002] {
		begun := make(map[time.Duration]int)
		for _, c := range r.Copies {
			begun[c.Begun]++
			most = max(most, begun[c.Begun])
		}
	}
	return Finding{"copies begun in one session", "one at most", fmt.Sprint(most), If(most == 1)}
}

func (l *lab002) followsLoad() Finding {
	at := func(at time.Duration) float64 {
		return l.runs[plans002].average(func(r *cluster.Result) float64 { return float64(hotReplicas(r, at)) })
	}
	early, late := at(hotRamp/4), at(hotRamp)
	return Finding{"the number of replicas follows the load", "adjusted dynamically", fmt.Sprintf("hot data set: %.1f replicas after 10 min, %.1f after 40", early, late), More(late, early)}
}

func (l *lab002) localJobs() Finding {
	share := func(name string) float64 {
		return 100 * l.runs[name].average(localTasks) / l.runs[name].average(func(r *cluster.Result) float64 { return float64(len(r.Tasks)) })
	}
	plans, fcfs := share(plans002), share(fcfs002)
	return Finding{"jobs run where their data is", "always in a plan", fmt.Sprintf("%.0f %% of all, under FCFS %.0f %%", plans, fcfs), More(plans, fcfs)}
}

func (l *lab002) lessTraffic() Finding {
	plans, fcfs := l.moved(plans002), l.moved(fcfs002)
	return Finding{"less network congestion: bytes over the network, copies included", "less", fmt.Sprintf("%.0f GB, under FCFS %.0f GB", plans, fcfs), More(fcfs, plans)}
}

func (l *lab002) moved(name string) float64 {
	return l.runs[name].average(remoteGigabytes) + l.runs[name].average(copiedGigabytes)
}

func (l *lab002) fasterThanFCFS() Finding {
	plans, fcfs := l.runs[plans002].average(l.wholeResponse), l.runs[fcfs002].average(l.wholeResponse)
	return Finding{"better throughput of the whole system than FCFS: mean response", "better", fmt.Sprintf("%.0f s, FCFS %.0f s", plans, fcfs), More(fcfs, plans)}
}

func (l *lab002) overwrites() Finding {
	drops := l.runs[plans002].average(func(r *cluster.Result) float64 { return float64(len(r.Drops)) })
	return Finding{"obsolete replicas are overwritten where room is short, least recently used first", "LRU", fmt.Sprintf("%.1f overwritten a run", drops), If(drops > 0)}
}

// withDAD lets 000's dispatch take what no plan claims, instead of FCFS.
func (l *lab002) withDAD() Finding {
	plans, both := l.runs[plans002].average(l.wholeResponse), l.runs[plansByDAD].average(l.wholeResponse)
	return Finding{
		"plans work beside other policies (section 2)", "can cooperate",
		fmt.Sprintf("with DAD behind them %.0f s and %.0f GB, with FCFS %.0f s and %.0f GB", both, l.moved(plansByDAD), plans, l.moved(plans002)), If(both <= plans),
	}
}
