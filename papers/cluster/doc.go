// Package cluster plays a batch cluster whose nodes federate their disks, as
// Gfarm does under Torque and LSF (papers 000, 002, 003): a task reads its files
// from its own node's page cache, or over the network from a node that holds
// them, and reading makes no copy. Who runs where is decided by the product's
// rank matrix and solvers, copies by its replica policies; the baseline is the
// batch system's own scheduler, first come, first served to the node with the
// least load.
package cluster
