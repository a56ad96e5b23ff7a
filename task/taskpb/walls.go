package taskpb

import (
	"github.com/pilotage-grid/pilotage/task"
)

// Walls decodes what confines a pilot's payloads, from its registration or its
// description.
func Walls(in interface {
	GetConfinement() int32
	GetWalls() []string
	GetSandbox() string
}) task.Walls {
	return task.Walls{Confinement: task.Confinement(in.GetConfinement()), Up: in.GetWalls(), Note: in.GetSandbox()}
}
