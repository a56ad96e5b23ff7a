// Package pilot holds nothing itself: a pilot's rules are in pilot/worker, which
// runs tasks on slots, and in pilot/master, which serves a site; what the two say
// to each other is in pilot/message. Its tests play whole sites with both.
//
// pilot/wire encodes messages, pilot/journal keeps what a master was told,
// pilot/exec runs payloads, and pilot/agent is the shell that connects cores,
// overlay, cache and queue.
package pilot
