package workernode

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// stateFile tells people and scripts about a pilot.
const stateFile = "pilot.json"

// removeState tells that the pilot is gone.
func (n *workerNode) removeState() { _ = os.Remove(filepath.Join(n.config.Folder, stateFile)) }

// writeState writes the state file.
func (n *workerNode) writeState() error {
	state := struct {
		ID        task.PilotID `json:"id"`
		PID       int          `json:"pid"`
		Site      task.Site    `json:"site"`
		Ports     []string     `json:"ports"` // of the overlay and of the data server
		Addresses []string     `json:"addresses"`
		DataURL   string       `json:"data_url"`
		Folder    string       `json:"folder"`
		Ends      time.Time    `json:"ends"`
	}{
		n.pilot.Pilot, os.Getpid(), n.pilot.Site, tcpPorts(n.pilot.Addresses, n.data.Addr()), n.pilot.Addresses,
		n.dataURL(), n.config.Folder, n.config.Ends().UTC(),
	}
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(n.config.Folder, stateFile), append(data, '\n'), 0o600)
}
