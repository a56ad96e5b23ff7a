// Command static is the spawner as a small static program, which `make build` puts
// into pilotage.
package main

import "github.com/pilotage-grid/pilotage/pilot/exec/spawner"

func main() { spawner.Called() }
