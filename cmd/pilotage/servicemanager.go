package main

import (
	"errors"
	"net"
	"strings"
)

// tellServiceManager tells systemd, or whoever set NOTIFY_SOCKET as systemd does
// (sd_notify(3)), how this service is: READY=1, STOPPING=1. Without the variable it does
// nothing.
func tellServiceManager(getenv func(string) string, state string) (err error) {
	path := getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if strings.HasPrefix(path, "@") { // in Linux' abstract name space
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}
