package task

import (
	"fmt"
	"strings"
)

// Confinement is how strictly a pilot confines payloads; a higher level has all of
// the lower ones' walls.
type Confinement int

// The levels; docs/first-site.md says what each promises.
const (
	ConfinementNone       Confinement = iota // the account is the only wall
	ConfinementLandlock                      // places are closed
	ConfinementNamespaces                    // own processes, mounts and IPC; all read-only but the work folder
	ConfinementContainer                     // and a root file system of its own
)

// ConfinementNames are the levels' names, by level.
var ConfinementNames = [...]string{"NONE", "LANDLOCK", "NAMESPACES", "CONTAINER"}

// String is the name in lists and expressions.
func (c Confinement) String() string {
	if c < 0 || int(c) >= len(ConfinementNames) {
		return fmt.Sprintf("LEVEL %d", int(c))
	}
	return ConfinementNames[c]
}

// Set satisfies pflag.Value: it takes a level by its name.
func (c *Confinement) Set(text string) error {
	for level, name := range ConfinementNames {
		if strings.EqualFold(text, name) {
			*c = Confinement(level)
			return nil
		}
	}
	return fmt.Errorf("%q is no level: give %s", text, strings.Join(ConfinementNames[:], ", "))
}

// Type satisfies pflag.Value.
func (Confinement) Type() string { return "level" }

// Walls are what confines a pilot's payloads.
type Walls struct {
	Confinement Confinement
	Up          []string // names of the walls that are up, in order
	Note        string   // for people: why nothing higher is, and what brings it
}

// imagesWall begins the name of the wall that tells in which folders images may lie.
const imagesWall = "images="

// ImagesWall names the wall of pilots whose payloads may run in images below a folder.
func ImagesWall(folder string) string { return imagesWall + folder }

// Images are the folders in which images may lie that a task names as its container.
func (w Walls) Images() (folders []string) {
	for _, name := range w.Up {
		if folder, is := strings.CutPrefix(name, imagesWall); is {
			folders = append(folders, folder)
		}
	}
	return folders
}

// String is one line for people.
func (w Walls) String() string {
	text := w.Confinement.String()
	if len(w.Up) > 0 {
		text += " (" + strings.Join(w.Up, ", ") + ")"
	}
	if w.Note != "" {
		text += ": " + w.Note
	}
	return text
}
