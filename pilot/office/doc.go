// Package office is what a pilot makes of its site: for whom its two roles work, and
// which settings are in force.
//
// Where the site schedules itself, a pilot's worker obeys the overlay's master, who may be
// this pilot; where the queue matches tasks, both roles work for this pilot alone. The
// queue tells the settings with its answers, and the master tells them to members that it
// hears. Office is driven by Step(now, event, site) and returns what is to be done; the
// agent and the simulation carry that out.
package office
