// Package agent is a pilot as a running thing: the shell around the worker's
// and the master's cores. Enroll registers it with the queue; Work joins the site's
// overlay, stages in, has payloads run, uploads outputs, and drains before the pilot's
// lifetime ends.
//
// It opens no cache and runs no process. The Parts that it works with are made for it
// between the two calls: package workernode makes them on a worker node.
//
// Inside, the work is divided among types that own their state; none has the Agent,
// which makes and ends them. roles gives both cores their events and has carried out
// what they decide: by payloads (attempts in hand), files (the cache, replicas, sole
// copies), uploader, queueLink (Sync, Pull, outcomes), claims (the mastership), reach
// (do pilots reach one another?) and network (the overlay). What these find out comes
// back as events.
//
// Work owns every goroutine. One of them, the loop, owns the cores: everybody
// else posts to it. The agent decides nothing that a core could decide.
package agent
