package experiment

import "testing"

// The claims that hold on a smaller sky of the same shape: an eighth of the
// tasks and of the capacities, one topology.
func TestClaimsOf001OnASmallSky(t *testing.T) {
	l := newLab001(Options001{Part: 8, Topologies: 1})
	for _, value := range capacities.values {
		l.want(capacities.at(value), inSkyOrder, policies001...)
	}
	for _, value := range workers.values {
		l.want(workers.at(value), inSkyOrder, "rest")
	}
	for _, kind := range []bagKind{disordered, shuffled} {
		l.want(defaults001(), kind, "workqueue", "rest")
	}
	if err := l.run(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Finding{l.affinityBySmallCapacity(inSkyOrder), l.overlapMovesMore()} {
		if f.Same != Yes {
			t.Errorf("%s: the paper says %s, here %s", f.Claim, f.Paper, f.Ours)
		}
	}
	// Fig. 7a: the more workers share a site's files, the fewer each needs.
	before := 0.0
	for i, value := range workers.values {
		moved, _ := l.mean(workers.at(value), inSkyOrder, "rest", perWorker)
		if i > 0 && moved >= before {
			t.Errorf("%v workers a site: %.0f transfers each, with fewer workers %.0f", value, moved, before)
		}
		before = moved
	}
	// The gain comes from locality: little is left where files are drawn at random.
	gain := func(kind bagKind) float64 {
		queue, _ := l.mean(defaults001(), kind, "workqueue", transfers)
		rest, _ := l.mean(defaults001(), kind, "rest", transfers)
		return 1 - rest/queue
	}
	if with, without := gain(disordered), gain(shuffled); with < 0.5 || without > 0.3 {
		t.Errorf("rest saves %.2f of the transfers with locality and %.2f without", with, without)
	}
}

func TestTopologiesHaveTheMeansOfTable3(t *testing.T) {
	for number, given := range bandwidths001 {
		topology := newTopology(number)
		var values []float64
		for _, bandwidth := range topology.bandwidth {
			values = append(values, bandwidth/1e6)
		}
		mean, spread := MeanOf(values)
		if mean < given.mean-3*spread-0.5 || mean > given.mean+3*spread+0.5 {
			t.Errorf("topology %d: %.3f MB/s on average (+- %.3f), the paper has %.3f", number, mean, spread, given.mean)
		}
	}
}
