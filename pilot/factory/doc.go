// Package factory decides how many pilot jobs a site's batch system should have.
//
// It is a core: the time is an argument, what it decides is returned as actions.
// It hears what the queue wants run at the site (demand), what the batch system
// has (a listing), and what became of its own submissions. It never submits
// without a fresh listing, keeps a name of its own for each job before the job
// exists, and waits longer each time when jobs are refused or die at once.
//
// The edges are pilot/factory/batch, which speaks with batch systems, and
// pilot/factory/service, which runs it.
package factory
