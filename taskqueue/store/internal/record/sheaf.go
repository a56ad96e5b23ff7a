package record

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Bind puts several records into one blob: each with its length before it, and
// one alone as it is.
func Bind(records [][]byte) []byte {
	if len(records) == 1 {
		return records[0]
	}
	size := 0
	for _, r := range records {
		size += len(r) + binary.MaxVarintLen16
	}
	blob := make([]byte, 0, size)
	for _, r := range records {
		blob = append(appendNumber(blob, uint64(len(r))), r...)
	}
	return blob
}

// Unbind returns the records of a blob, of which the caller knows how many
// there are. They point into the blob.
func Unbind(blob []byte, number int) ([][]byte, error) {
	if number == 1 {
		return [][]byte{blob}, nil
	}
	if number < 1 || number > len(blob) {
		return nil, errCutOff
	}
	records := make([][]byte, number)
	for i := range records {
		length, n := binary.Uvarint(blob)
		if n <= 0 || length > uint64(len(blob)-n) {
			return nil, errCutOff
		}
		records[i] = slices.Clip(blob[n : n+int(length)])
		blob = blob[n+int(length):]
	}
	if len(blob) > 0 {
		return nil, errors.New("bytes are left over")
	}
	return records, nil
}
