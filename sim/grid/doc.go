// Package grid plays whole sites in virtual time with the production cores: the
// queue's rules over its store in memory, the master's and the workers' cores,
// the matcher, and by package staging each pilot's cache index, the fetch planner and the
// grants for storage element reads. Nothing of them is written a second time.
//
// What stands in for the edges is a model: messages take a latency, broadcasts a
// hop for each eightfold of pilots, files flow over shared links (package sim),
// payloads take their recorded time on the node's speed and under its background
// load. Nodes fail at set moments; the overlay notices after a set time and the
// live pilot with the lowest peer id claims the office.
//
// The package is pure: virtual time, seeded randomness, no goroutine.
package grid
