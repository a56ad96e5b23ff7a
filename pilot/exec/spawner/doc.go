// Package spawner is the process that starts payloads inside namespaces: the init
// of a PID namespace, in which one payload at a time runs. It makes the mounts that
// all its payloads see once, ahead of need, and serves one attempt after another;
// between two of them nobody is left in its namespace. It dies with the pilot, and
// with it all that its payload has started: its socket ends.
//
// It is a program of its own, small and static, that a pilot carries with it (see
// the folder static); a pilot that was built without it starts its own program
// again under another name.
//
// The pilot cannot make it directly: a process that hides its memory may not write
// the user map of a child. So the program starts once as launcher, which starts the
// spawner and ends; the pilot, as reaper of orphans, becomes the spawner's parent.
//
// It never decides what runs or what a payload may see, and speaks to the pilot
// only.
package spawner
