package main

import (
	"net"
	"path/filepath"
	"testing"
)

// TestServiceManagerIsTold: systemd hears that the queue is ready; without systemd
// nothing happens.
func TestServiceManagerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket := path
	getenv := func(string) string { return socket }
	if err := tellServiceManager(getenv, "READY=1"); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 100)
	if n, err := listener.Read(text); err != nil || string(text[:n]) != "READY=1" {
		t.Errorf("told %q, %v", text[:n], err)
	}
	for name, failed := range map[string]bool{"": false, path + "-gone": true} {
		socket = name
		if err := tellServiceManager(getenv, "STOPPING=1"); (err != nil) != failed {
			t.Errorf("%q: %v", name, err)
		}
	}
}
