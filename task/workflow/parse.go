package workflow

import (
	"errors"
	"fmt"
)

// Parse reads a workflow file. name is what errors call the file. The result
// has the right keys and kinds of values; whether it makes sense is found by
// Expand. The error is an *Errors.
func Parse(name string, data []byte) (*File, error) {
	file := &File{path: name}
	faults := &faults{file: name}
	if len(data) > MaxBytes {
		faults.add(Position{}, "describe tasks that look alike once, with foreach",
			"the file has %d bytes: at most %d are read", len(data), MaxBytes)
		return nil, faults.err()
	}
	file.source = string(data)
	faults.source = file.source
	root, err := readTree(file.source, maxSigns)
	var syntax *syntaxError
	switch {
	case errors.As(err, &syntax):
		faults.add(syntax.at, syntax.hint, "%s", syntax.message)
		return nil, faults.err()
	case err != nil:
		return nil, fmt.Errorf("read workflow %s: %w", name, err)
	}
	if kindOf(root) != mapNode {
		faults.add(placeOf(root), `begin with "apiVersion: pilotage/v1"`, "a workflow is a map of keys, here is %s", kindOf(root))
		return nil, faults.err()
	}
	decoder := &decoder{faults: faults}
	decoder.structure("", root, file)
	if faults.any() {
		return nil, faults.err()
	}
	return file, nil
}
