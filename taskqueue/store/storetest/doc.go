// Package storetest is the conformance suite of taskqueue.Store: what every
// engine owes to the rules, from the order of scans to durability. Each engine
// runs it from its own tests; no product code imports it.
package storetest
