// Package world is one simulation of the whole system: the queue's rules and serving over
// its tables, overlays, masters, workers, cache indexes, fetch planners and grants, all of
// them those of the product, in virtual time, over links that lose, delay and break, above a disk that fails. Models stand
// for what is not ours: network, kad-dht, the queue's disk, storage elements,
// payloads and batch systems, which the product's factory fills in large grids. What parks calls, wakes them and matches tasks around the
// rules is the product's (package serving); all pilots are in the overlay from the start.
//
// A run follows from its seed: DrawPlan draws what is there and what goes wrong when,
// Run plays it and says what was not as it must be. Command sim/soak (`make soak`) plays
// many; a seed that fails is cut down to the shortest plan that does, and tells who did
// what when.
//
// Tests of single faults build their own world:
//
//	w := newWorld(t, 1)                      // a seed
//	a := w.addSite("siteA", nil)             // with a storage element
//	pilots := w.start(a, 4, 2)               // four pilots of two slots
//	flow := w.submit("flow", tasks...)       // see one, reads, makes
//	w.run(time.Minute)
//	pilots[0].kill()                         // or: stop (SIGTERM), pause, cutOff, w.part, w.scatter, a.setMode
//	w.finish(flow, time.Hour)                // fails unless all is DONE and stored
//	w.check()                                // what must hold at any time
//
// The package reads no clock and starts no goroutine; a world belongs to one goroutine.
package world
