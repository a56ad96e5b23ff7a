package matcher

import (
	"slices"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// A task that names a container goes to pilots that let images lie there, whatever it
// requires beside; the clause that fails says which container it is.
func TestContainersAreRequired(t *testing.T) {
	pilot := func(up ...string) Pilot {
		return Pilot{ID: "p-abcdefgh", Slots: 1, Resources: task.Resources{Cores: 1}, Walls: task.Walls{Confinement: task.ConfinementNamespaces, Up: up}}
	}
	one := task.Task{ID: task.NewID("w-abcdefghij", "a"), Container: "/cvmfs/unpacked/el9:latest", Resources: task.Resources{Cores: 1}}
	for _, require := range []string{"", "pilot.slots == 1 // enough", "pilot.slots > 0 && pilot.cores > 0"} {
		one.Require = require
		for _, c := range []struct {
			pilot    Pilot
			feasible bool
		}{
			{pilot("ipc", task.ImagesWall("/srv/"), task.ImagesWall("/cvmfs/")), true},
			{pilot("ipc", task.ImagesWall("/srv/"), task.ImagesWall("/cvmfs/other/")), false},
			{pilot("/cvmfs/"), false},
			{pilot(), false},
		} {
			got := NewEvaluator(c.pilot, func(task.FileKey) (task.Bytes, bool) { return 0, false }, NewCompiler(8)).Check(&one, nil)
			if got.Feasible != c.feasible || !c.feasible && got.FailedClause != `pilot.images.exists(folder, "/cvmfs/unpacked/el9:latest".startsWith(folder))` {
				t.Errorf("%q at %v: %+v", require, c.pilot.Walls.Images(), got)
			}
		}
	}
	if got := pilot("ipc", task.ImagesWall("/srv/")).Walls.Images(); !slices.Equal(got, []string{"/srv/"}) {
		t.Errorf("images may lie in %v", got)
	}
}
