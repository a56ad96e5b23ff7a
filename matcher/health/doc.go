// Package health judges the worker nodes of a site by how their payloads end, so
// that a node at which everything fails does not draw all work to itself. It is a
// pure rule over names and times
// (docs/decisions/0011-health-of-nodes.md).
//
// A node that has failed different tasks in a row stands out if that would be
// hardly a chance by what happens at the other nodes at the same time. It is set
// back: it gets nothing for a while, longer each time, and then one task on trial.
// A success ends that. So does the same happening elsewhere: then it is the
// tasks. A task that has failed at two nodes speaks against neither.
package health
