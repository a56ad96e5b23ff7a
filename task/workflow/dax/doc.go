// Package dax reads abstract workflows of Pegasus in the XML form DAX 2.1 into
// a trace.Workload.
//
// Old generators write different sizes for one file into different jobs: the
// producer's counts, else the largest, and each such file is named in the notes
// of the workload. What cannot be understood is refused with the file, the
// line and the reason. The package is pure; it starts no goroutine.
package dax
