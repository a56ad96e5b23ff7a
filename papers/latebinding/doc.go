// Package latebinding repeats the experiment of paper 004 (section IV) with
// package bench: whole pilots against a real queue, in its three architectures.
// Pilots also send the messages that the paper names, which the product has no
// need of. It starts what bench starts, and keeps every run in a folder, so that
// an experiment that was stopped goes on.
package latebinding
