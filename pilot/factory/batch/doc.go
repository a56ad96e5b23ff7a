// Package batch speaks with batch systems: it submits pilot jobs, lists them and
// cancels them.
//
// A batch system is a description of a few commands and of how to read what they
// print ([Definition]); those that ship are YAML files in systems/, and a site may
// change a copy of one. Beside them there is [Local], which runs jobs as processes
// of this machine. Nothing here decides how many jobs there should be, and nothing
// goes on running after a call has returned, but jobs of Local.
package batch
