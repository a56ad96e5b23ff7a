// Command ci reads the record of `go test -json`: it prints what a person
// wants to see of it and holds the rules that continuous integration adds to
// passing tests.
//
//	go test -json ./... | ci show -record FILE    the summary lines, failures, totals
//	ci check -record FILE -count-file FILE        no skipped test, no untested package, no fewer tests
//	ci count -record FILE                         the number of tests
//	ci serial                                     the folders that need no race detector
//	ci large                                      no type with too many methods or fields
//
// Its own tests also hold a rule that the linters cannot: the cores and
// the simulations start no goroutine. It belongs to the workshop and is never part of the product.
package main
