// Package recording reads recorded workflows of any format that is known, also
// gzipped. Who opens the file hands in what it holds.
package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/pilotage-grid/pilotage/task/workflow/dax"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
	"github.com/pilotage-grid/pilotage/task/workflow/wfformat"
)

// MaxBytes bounds what a recording may hold once it is unpacked.
const MaxBytes = 1 << 30

// Unpack reads everything, unpacked if it is gzipped, of so many bytes at most.
func Unpack(content io.Reader, most int64) ([]byte, error) {
	plain := bufio.NewReader(content)
	content = plain
	if start, _ := plain.Peek(2); bytes.Equal(start, []byte{0x1f, 0x8b}) {
		packed, err := gzip.NewReader(plain)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		content = packed
	}
	data, err := io.ReadAll(io.LimitReader(content, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it has more than %d bytes: at most that many are read", most)
	}
	return data, err
}

// Ending is that of a file's name, without the one that says that it is gzipped.
func Ending(name string) string { return path.Ext(strings.TrimSuffix(name, ".gz")) }

// Parse reads a workflow in WfFormat (.json) or DAX (.xml, .dax), by the ending of its
// file's name.
func Parse(name string, data []byte) (*trace.Workload, error) {
	switch Ending(name) {
	case ".json":
		return wfformat.Read(name, data)
	case ".xml", ".dax":
		return dax.Read(name, data)
	}
	return nil, fmt.Errorf("%s: what is it? Give a file that ends in .json (WfFormat), .xml or .dax (Pegasus), also gzipped", name)
}
