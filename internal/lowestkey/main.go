// Command lowestkey searches a text whose SHA-256 begins with 32 zero bits: what
// kad-dht has to look up to find the lowest ids (dht.Bottom). It takes minutes, and
// was run once.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
)

const prefix = "pilotage bottom of the key space "

func main() {
	found := make(chan string)
	workers := uint64(runtime.NumCPU())
	for first := range workers {
		go func() {
			text := []byte(prefix)
			for number := first; ; number += workers {
				text = strconv.AppendUint(text[:len(prefix)], number, 36)
				digest := sha256.Sum256(text)
				if binary.BigEndian.Uint32(digest[:]) == 0 {
					found <- string(text)
					return
				}
			}
		}()
	}
	fmt.Println(<-found)
}
