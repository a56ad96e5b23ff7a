// Package agent is a pilot as a running thing: the shell around the worker's
// and the master's cores. It registers with the queue, joins the site's
// overlay, keeps the cache, stages in, runs payloads, uploads outputs, and
// drains before its lifetime ends.
//
// It is in parts that own their state; none has the Agent, which makes and ends
// them. roles gives both cores their events and has carried out what they decide:
// by payloads (attempts in hand), files (the cache, replicas, sole copies), uploader,
// queueLink (Sync, Pull, outcomes), claims (the mastership), reach (do pilots reach
// one another?) and network (the overlay). What these find out comes back as events.
// A Ground is what lies below: disk, processes, storage.
//
// Run owns every goroutine. One of them, the loop, owns the cores: everybody
// else posts to it. The agent decides nothing that a core could decide.
package agent
