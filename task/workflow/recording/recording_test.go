package recording_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task/workflow/recording"
)

func TestUnpack(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = io.WriteString(writer, "0123456789")
	_ = writer.Close()
	for name, content := range map[string][]byte{"plain": []byte("0123456789"), "gzipped": packed.Bytes()} {
		data, err := recording.Unpack(bytes.NewReader(content), 10)
		if err != nil || string(data) != "0123456789" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if _, err := recording.Unpack(bytes.NewReader(content), 9); err == nil || !strings.Contains(err.Error(), "more than 9 bytes") {
			t.Errorf("%s, one byte too long: %v", name, err)
		}
	}
	if _, err := recording.Unpack(bytes.NewReader(packed.Bytes()[:5]), 10); err == nil {
		t.Error("half a file is read")
	}
}

func TestParseGoesByTheEnding(t *testing.T) {
	for name, want := range map[string]string{"a.txt": "what is it?", "dir/a.json.gz": "a.json.gz", "a.json": "a.json", "a.dax": "a.dax", "a.xml.gz": "a.xml"} {
		if _, err := recording.Parse(name, []byte("{")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
