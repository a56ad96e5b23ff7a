// Package staging is the data side of a simulated pilot: the product's cache index, fetch
// planner and grants of storage reads in virtual time, and around them what the product's
// shells (cache/disk, cache/fetch, pilot/agent) do with them. How bytes and words move, and
// what fails, is said by whoever simulates: see Peers and Storage.
//
// The package is pure, as all of sim; a Files belongs to one goroutine.
package staging
