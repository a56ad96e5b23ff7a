// Package bench measures Pilotage: the path of short tasks through a real
// queue and real pilots, the queue alone under a large load, and whole sites
// of thousands of pilots in one process.
//
// It starts what it measures, submits work as a workflow manager does, and
// takes its figures from what the queue has recorded. It contains no rule of
// the product and no special path through it: what it changes is said by the
// flags of `pilotage bench`. Figures are defined in the documentation of the
// result types. The caller owns the goroutines of Run functions through their
// context; processes that a function starts have ended when it returns.
package bench
