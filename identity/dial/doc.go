// Package dial opens connections to the task queue, for tools and for pilots:
// which address, how to come back after an outage, how large a message may be.
// It starts no goroutine; gRPC owns those of a connection.
package dial
