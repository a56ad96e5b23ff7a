// Package server is the gRPC edge of the task queue: TLS, who may call what,
// the service clock, parked Syncs, watched workflows, metrics and the files
// that a queue's folder holds beside its database.
//
// Handlers only translate: the rules are in package taskqueue, one table
// (errors.go) maps their errors to status codes, another (methods.go) says
// which role may call which method. What a call was answered is durable.
//
// Its goroutines belong to Server.Run and end before it returns. It never
// matches a task to a pilot, moves no file, and keeps nothing in memory that
// grows with tasks or files.
package server
