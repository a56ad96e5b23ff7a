// Package agent is a pilot as a running thing: the shell around the worker's
// and the master's cores. It registers with the queue, joins the site's
// overlay, keeps the cache, stages in, runs payloads, uploads outputs, and
// drains before its lifetime ends.
//
// Run owns every goroutine. One of them, the loop, owns the cores: everybody
// else posts to its mailbox. The agent decides nothing that a core could
// decide.
package agent
