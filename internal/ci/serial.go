package main

// cores are the folders of the pure rules; other sub-folders of them are edges.
var cores = []string{
	"task", "matcher", "matcher/health", "matcher/replica", "taskqueue", "taskqueue/matchmaker", "taskqueue/serving",
	"pilot/message", "pilot/worker", "pilot/master", "dht", "cache",
}

// simulations drive the cores, one event after the other.
var simulations = []string{"dht/memnet", "sim", "sim/chart", "sim/grid", "sim/server", "sim/staging", "sim/world"}

// serial are the folders that start no goroutine, in tests either. The race detector
// has nothing to find there, and their tests take five times as long with it.
func serial() []string { return append(cores[:len(cores):len(cores)], simulations...) }
