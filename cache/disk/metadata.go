package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/task"
)

const (
	metadataVersion = 1
	// maxMetadata bounds what recovery reads: a manifest of 64 MiB describes
	// about 15 TiB in chunks of 16 MiB.
	maxMetadata = 64 << 20
	// maxKey bounds the key of a file that is known by name: a qualified LFN
	// with some room for the qualification.
	maxKey = task.MaxLFN + 128
	// namePrefix begins the keys of files known by name only.
	namePrefix = "lfn:"
)

// metadata is the file beside each content. It is believed only if its own
// checksum holds and content has the size and modification time it names.
type metadata struct {
	Version int            `json:"version"`
	Digest  task.Digest    `json:"digest"`
	Size    task.Bytes     `json:"size"`
	Chunk   task.Bytes     `json:"chunk"`
	Chunks  []task.Digest  `json:"chunks"`
	Names   []task.FileKey `json:"names,omitempty"`
	Exec    bool           `json:"exec,omitempty"`
	Outputs []madeAs       `json:"outputs,omitempty"`
	// Modified is the content's modification time in ns since 1970.
	Modified int64 `json:"modified"`
	// Boot identifies the run of the kernel that published the file; Synced
	// tells that content was flushed. Unflushed content of an earlier boot may
	// have been lost by a power cut without a trace in size or time.
	Boot   string `json:"boot,omitempty"`
	Synced bool   `json:"synced,omitempty"`
}

// madeAs is a task.OutputID in a metadata file.
type madeAs struct {
	LFN        task.LFN     `json:"lfn"`
	Task       task.ID      `json:"task"`
	Generation uint32       `json:"generation"`
	Lease      task.LeaseID `json:"lease"`
	Pilot      task.PilotID `json:"pilot"`
	Counter    uint64       `json:"counter"`
	// By is who keeps it in a shared folder: see sharing.
	By int `json:"by,omitempty"`
}

// encode appends the checksum of the text to the text.
func (m metadata) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode metadata of %s: %w", m.Digest, err)
	}
	return fmt.Appendf(text, "\n%s\n", task.Digest(blake3.Sum256(text))), nil
}

// decodeMetadata reads what encode wrote and nothing else.
func decodeMetadata(data []byte) (metadata, error) {
	text, rest, found := bytes.Cut(data, []byte("\n"))
	if !found || string(rest) != task.Digest(blake3.Sum256(text)).String()+"\n" {
		return metadata{}, errors.New("its checksum does not match")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var m metadata
	if err := decoder.Decode(&m); err != nil {
		return metadata{}, fmt.Errorf("it is not readable: %w", err)
	}
	if m.Version != metadataVersion {
		return metadata{}, fmt.Errorf("its version is %d, expected %d", m.Version, metadataVersion)
	}
	if m.Digest.IsZero() {
		return metadata{}, errors.New("it names no digest")
	}
	if err := m.manifest().Validate(); err != nil {
		return metadata{}, err
	}
	for _, name := range m.Names {
		if err := validateKey(name); err != nil || !strings.HasPrefix(string(name), namePrefix) {
			return metadata{}, fmt.Errorf("it lists the name %q", name)
		}
	}
	return m, nil
}

func (m metadata) manifest() Manifest {
	return Manifest{Size: m.Size, Chunk: m.Chunk, Chunks: m.Chunks}
}

// stored is the file that the metadata tells of, to one of those who keep outputs.
func (m metadata) stored(self int) *stored {
	f := &stored{
		Entry: Entry{
			Key: task.KeyOf("", m.Digest), Size: m.Size, Digest: m.Digest, Manifest: m.manifest(), Names: m.Names, Exec: m.Exec,
		},
		modified: m.Modified, boot: m.Boot, synced: m.Synced, reading: make(chan struct{}, 1),
	}
	for _, o := range m.Outputs {
		output := task.OutputID{
			Attempt: task.AttemptID{Task: o.Task, Generation: o.Generation, Lease: o.Lease, Pilot: o.Pilot, Counter: o.Counter}, LFN: o.LFN,
		}
		if self == alone || o.By == self {
			f.Outputs = append(f.Outputs, output)
		} else {
			f.Others, f.keepers = append(f.Others, output), append(f.keepers, o.By)
		}
	}
	return f
}

func (f *stored) metadata(self int) metadata {
	m := metadata{
		Version: metadataVersion, Digest: f.Digest, Size: f.Size, Chunk: f.Manifest.Chunk, Chunks: f.Manifest.Chunks,
		Names: f.Names, Exec: f.Exec, Modified: f.modified, Boot: f.boot, Synced: f.synced,
	}
	add := func(o task.OutputID, by int) {
		a := o.Attempt
		m.Outputs = append(m.Outputs, madeAs{o.LFN, a.Task, a.Generation, a.Lease, a.Pilot, a.Counter, by})
	}
	for _, o := range f.Outputs {
		add(o, self)
	}
	for i, o := range f.Others {
		add(o, f.keepers[i])
	}
	return m
}

// writeMetadata writes the metadata of a file to a path.
func writeMetadata(path string, m metadata) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil && m.Synced {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	// The time is that of last use, for the order of eviction after a restart.
	// The file system's own clock ticks too slowly to tell files apart.
	return os.Chtimes(path, time.Time{}, time.Now())
}

// validateKey checks the form of a key that came from outside.
func validateKey(key task.FileKey) error {
	if _, ok := key.Digest(); ok {
		return nil
	}
	name, found := strings.CutPrefix(string(key), namePrefix)
	if !found || name == "" || len(key) > maxKey || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%.80q is not a file key: expected b3: with 64 hex digits, or lfn: with a name", key)
	}
	return nil
}
