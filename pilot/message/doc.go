// Package message has what a site's master and its workers say to each other, and
// the events and actions that both cores have. It holds plain values; pilot/wire
// encodes the messages.
package message
