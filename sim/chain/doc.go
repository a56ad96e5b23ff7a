// Package chain holds the tests in which the two sides of every call are real:
// the queue's rules over its store in memory, overlays, masters and workers, all
// in virtual time, over links that lose, delay and break. Nothing of the rules is
// played by a twin; models stand for the network, storage elements, caches and
// payloads only. Where the queue matches tasks, a short copy of its serving shell
// stands around the real matchmaker; all pilots are in the overlay from the start.
//
//	w := newWorld(t, 1)                      // a seed
//	a := w.addSite("siteA", nil)             // with a storage element
//	pilots := w.start(a, 4, 2)               // four pilots of two slots
//	flow := w.submit("flow", tasks...)       // see one, reads, makes
//	w.run(time.Minute)
//	pilots[0].kill()                         // or: stop (SIGTERM), cutOff, w.part, w.scatter, a.setMode
//	w.finish(flow, time.Hour)                // fails unless all is DONE and stored
//	w.check()                                // what must hold at any time
//
// The world notes what happens; a failing test prints it.
package chain
