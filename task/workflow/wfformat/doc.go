// Package wfformat reads workflow recordings in WfFormat 1.5, the JSON form of
// the WfCommons project (https://wfcommons.org/format), into a trace.Workload.
//
// It accepts any published instance: file ids that are paths, files of no
// bytes, run times of 0, cores as fractions, parents without a common file.
// What cannot be understood is refused with the file, the place and the reason.
// The package is pure; it starts no goroutine.
package wfformat
