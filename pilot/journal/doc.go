// Package journal records what a site's master was told and when, and plays it
// to the master's core again: since the core decides by nothing else, the same
// journal gives the same assignments, and another solver or setting shows what
// it would have decided with the same knowledge.
//
// A journal is a line that names its format, then a Header and records, as package
// wire writes them, each with its length before it. It can be read up to its last
// whole record, also when its writer was killed; it belongs to the version of the
// program that wrote it.
package journal
