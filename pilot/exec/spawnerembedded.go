//go:build spawner

package exec

import _ "embed"

// embeddedSpawner is pilot/exec/spawner/static, as `make build` has built it.
//
//go:embed spawner.bin
var embeddedSpawner []byte
