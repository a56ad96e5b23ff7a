package world

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Each bug that sim/world/bugs/run puts into the product is a patch that fits it.
func TestBugsFitTheProduct(t *testing.T) {
	patches, err := filepath.Glob("bugs/*.patch")
	if err != nil || len(patches) < 20 {
		t.Fatalf("%d bugs, %v", len(patches), err)
	}
	for _, patch := range patches {
		full, err := filepath.Abs(patch)
		if err != nil {
			t.Fatal(err)
		}
		check := exec.Command("git", "apply", "--check", full)
		check.Dir = "../.."
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", patch, err, out)
		}
	}
}
