// Package coadd makes bags of tasks that look like Coadd, the sky survey
// workload of paper 001 (section 2.1, table 2): many tasks that each read many
// files, and files that are read by few, related tasks. The original traces are
// not public; Generate meets every statistic that the paper gives of them.
//
// Everything is integers and a generator of its own, so the same seed gives the
// same bag everywhere and for ever. The package is pure.
package coadd
