package sqlite

import (
	"encoding/binary"
	"hash/crc32"
	"os"
)

// witness is a file beside the database with the number of the last commit that was
// acknowledged. It is not synced, so it costs next to nothing: it outlives the process,
// and what the log lacks after a kill shows; after a power cut it may know less.
type witness struct{ file *os.File }

// witnessName is what the name of the file adds to that of the database.
const witnessName = "-acknowledged"

func openWitness(path string) (witness, error) {
	file, err := os.OpenFile(path+witnessName, os.O_CREATE|os.O_RDWR, 0o600)
	return witness{file}, explain(path, err)
}

// Read satisfies tables.Witness. A file that is cut off or does not fit its checksum
// knows nothing: the database has checksums of its own.
func (w witness) Read() (uint64, error) {
	var text [12]byte
	if n, _ := w.file.ReadAt(text[:], 0); n < len(text) || crc32.ChecksumIEEE(text[:8]) != binary.BigEndian.Uint32(text[8:]) {
		return 0, nil
	}
	return binary.BigEndian.Uint64(text[:]), nil
}

// Write satisfies tables.Witness. What it cannot write it does not know.
func (w witness) Write(commit uint64) {
	text := binary.BigEndian.AppendUint64(nil, commit)
	_, _ = w.file.WriteAt(binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text)), 0)
}

func (w witness) close() error {
	if w.file == nil {
		return nil
	}
	_ = w.file.Sync()
	return w.file.Close()
}
