package sqlite

import (
	"encoding/json"
	"fmt"
)

// encode turns a record into the blob that is stored.
func encode(record any) ([]byte, error) {
	blob, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", record, err)
	}
	return blob, nil
}

// decode reads what encode wrote.
func decode(blob []byte, record any) error {
	if err := json.Unmarshal(blob, record); err != nil {
		return fmt.Errorf("decode %T: %w", record, err)
	}
	return nil
}

// damagedRecord explains a blob that cannot be decoded.
func damagedRecord(path string, err error) error {
	return fmt.Errorf("%w: %s: restore the folder from a backup: %w", ErrDamaged, path, err)
}
