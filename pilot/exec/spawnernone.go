//go:build !spawner

package exec

// embeddedSpawner is empty in a program that `go build` alone has made.
var embeddedSpawner []byte
