package task_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// TestStorageSecretsStayInMemory: they open, and are in no log and no file.
func TestStorageSecretsStayInMemory(t *testing.T) {
	credentials := []task.StorageCredential{{URL: "https://se", Token: "hidden"}, {URL: "https://other", Key: "hidden"}}
	settings := task.SiteSettings{Site: "siteA", Secrets: task.SealStorage(credentials)}
	if got := settings.Secrets.Credentials(); !reflect.DeepEqual(got, credentials) {
		t.Errorf("opened: %v", got)
	}
	if task.SealStorage(nil) != "" || task.StorageSecrets("").Credentials() != nil {
		t.Error("no credentials are not no secrets")
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s", settings, settings, settings, settings.Secrets)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "settings", settings, "secrets", settings.Secrets)
	if err := json.NewEncoder(&out).Encode(settings); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := gob.NewEncoder(&file).Encode(settings); err != nil {
		t.Fatal(err)
	}
	out.Write(file.Bytes())
	if strings.Contains(out.String(), "hidden") {
		t.Errorf("printed: %s", out.String())
	}
	var read task.SiteSettings
	if err := gob.NewDecoder(&file).Decode(&read); err != nil || read.Site != "siteA" || read.Secrets != "" {
		t.Errorf("read back: %v, %v", read, err)
	}
}
