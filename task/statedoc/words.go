package main

import "github.com/pilotage-grid/pilotage/task"

// stateWords says what each state means to a reader of the page.
var stateWords = map[task.State]string{
	task.Blocked:     "An input does not exist yet at any place that a site could read it from.",
	task.Ready:       "Every input exists; the task waits for a site.",
	task.Leased:      "Handed to a site for the time of a lease. Which pilot has it and whether it runs are attributes of its attempts.",
	task.Done:        "One outcome with all outputs was accepted; it is the only one of its generation.",
	task.Failed:      "A failure ended it: retries are used up, or another attempt could not help.",
	task.Cancelled:   "Ended by a user, or because a task that it depends on ended badly.",
	task.Quarantined: "Its attempts took their pilots with them too often; it runs again only when a user says so.",
}

// eventWords says when each event happens.
var eventWords = map[task.Event]string{
	task.InputsExist:    "The last missing input became readable by some site.",
	task.InputsLost:     "A needed file has no holder and no replica left; its producer gets a new generation.",
	task.HandOut:        "The queue leases it to a site. A blocked task goes along when all that it misses is made in the same hand-out or by tasks that the site already holds.",
	task.Return:         "The site gives it back unstarted, or the queue recalled it; its inputs exist.",
	task.ReturnBlocked:  "The site gives it back unstarted and an input is missing.",
	task.AttemptFailed:  "An attempt failed in a way that another may not, and retries are left; it waits out a backoff in READY.",
	task.LeaseExpired:   "The site was not heard of for the time of the lease, on the service's own clock.",
	task.Succeed:        "An attempt's outcome was accepted. Outcomes are facts: accepted from every open state, because late work is still work.",
	task.GiveUp:         "An attempt failed and no retry is left, or no retry would help.",
	task.Quarantine:     "One more pilot was lost with an attempt of it, and that was one too many.",
	task.Cancel:         "A user cancels it.",
	task.CancelUpstream: "A task that it depends on ended in FAILED, CANCELLED or QUARANTINED.",
	task.Retry:          "A user reopens it, and with it the dependants that were cancelled because of it. A new generation begins.",
	task.Regenerate:     "Its output was lost and is needed again. A new generation begins.",
}
