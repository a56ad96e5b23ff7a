package main

// cores are the folders of the pure rules; other sub-folders of them are edges.
var cores = []string{
	"task", "matcher", "matcher/health", "matcher/replica", "taskqueue", "taskqueue/matchmaker", "taskqueue/serving",
	"pilot/message", "pilot/worker", "pilot/master", "dht", "cache",
}

// simulations drive the cores, one event after the other; the slowest is first.
var simulations = []string{"sim/world", "sim/grid", "dht/memnet", "sim", "sim/chart", "sim/server", "sim/staging"}

// serial are the folders that start no goroutine, in tests either. The race detector
// has nothing to find there, and their tests take five times as long with it. They are
// tested in this order.
func serial() []string { return append(simulations[:len(simulations):len(simulations)], cores...) }
