// Package matcher decides which task runs on which pilot of a site.
//
// The decision goes through stages, each with a type of its own:
//
//	feasible   Requirement.Check    hard requirements, with the clause that fails
//	rank       Rank, Evaluator      how much a pilot prefers each feasible task
//	matrix     Row, Matrix          the ranks of all pilots of a site, sparse
//	solve      Solver, ParseSolver  which pairs to take: Greedy, Exact, Sequential, Choose, DAD
//	assign     Assignment           the result, for the master to carry out
//
// The Evaluator lives on every pilot: it follows the task list and answers
// with a row of ranks. The Matrix lives on the master: it keeps the rows and
// serves free slots from them. Rows stay short because a rank is the sum of
// what the pilot thinks of the task's class and what everybody thinks of the
// task; only tasks that the pilot sees otherwise, above all those with an
// input in its cache, are named one by one.
//
// The package is pure: no I/O, no clock, no goroutine, no randomness, and no
// decision that depends on the order of a map. Compiler may be
// shared between goroutines; everything else belongs to one goroutine.
package matcher
