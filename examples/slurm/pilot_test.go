// Package slurm tests the batch script as a batch system runs it, with Slurm's
// variables faked and a stand-in for the binary.
package slurm

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// standIn says what it was given and obeys a few environment variables.
const standIn = `#!/bin/sh
echo "args $*"
echo "end ${SLURM_JOB_END_TIME:-none} memory ${SLURM_MEM_PER_NODE:-none}"
for last; do case $before in --cache) folder=$last ;; esac; before=$last; done
echo bytes >"$folder/cached" || exit 9
if [ -n "${STANDS:-}" ]; then
  trap 'echo told to stop; exit 7' TERM
  echo ready
  while :; do sleep 0.05; done
fi
exit "${LEAVES_WITH:-0}"
`

// batch is a submit folder with a node's disk.
type batch struct {
	folder, disk string
	env          []string
}

func newBatch(t *testing.T) *batch {
	t.Helper()
	b := &batch{folder: t.TempDir(), disk: t.TempDir()}
	b.write(t, "pilotage", standIn)
	b.write(t, "access.json", "{}")
	b.env = []string{"PATH=" + b.folder + ":" + os.Getenv("PATH"), "SLURM_SUBMIT_DIR=" + b.folder, "TMPDIR=" + b.disk, "SLURM_JOB_ID=42"}
	return b
}

func (b *batch) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.folder, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (b *batch) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	script, err := filepath.Abs("pilot.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/bin/sh", append([]string{script}, args...)...)
	command.Env = b.env
	command.Dir = "/"
	return command
}

// left lists what is still on the node's disk.
func (b *batch) left(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(b.disk, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func status(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return exit.ExitCode()
	}
	return 0
}

// TestSlurmVariables: what Slurm does not say itself is found out, and the
// pilot gets the access file, a folder of the job, and the user's options.
func TestSlurmVariables(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    []string
		squeue string
		want   []string
	}{
		{"slurm says all", []string{"SLURM_JOB_END_TIME=1800000000", "SLURM_MEM_PER_NODE=8192"}, "#!/bin/sh\nexit 1\n", []string{"end 1800000000 memory 8192"}},
		{"older slurm", nil, "#!/bin/sh\n[ \"$*\" = '--noheader --jobs 42 --format %e' ] && echo 2027-01-15T08:00:00\n", []string{"end 1800000000 memory none"}},
		{"array", []string{"SLURM_ARRAY_JOB_ID=41", "SLURM_ARRAY_TASK_ID=1"}, "#!/bin/sh\n[ \"$*\" = '--noheader --jobs 41_1 --format %e' ] && echo 2027-01-15T08:00:00\n", []string{"end 1800000000 memory none"}},
		{"no end known", nil, "#!/bin/sh\necho N/A\n", []string{"end none memory none", "cannot find out when job 42 ends"}},
		{"no slurm", []string{"SLURM_JOB_ID="}, "#!/bin/sh\necho 2027-01-15T08:00:00\n", []string{"end none memory none", "/pilotage-job-0-"}},
		{"memory by cpu", []string{"SLURM_MEM_PER_CPU=2000", "SLURM_CPUS_ON_NODE=4"}, "#!/bin/sh\nexit 1\n", []string{"end none memory 8000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBatch(t)
			b.write(t, "squeue", c.squeue)
			b.env = append(append(b.env, "TZ=UTC"), c.env...)
			out, err := b.command(t, "--port-range", "26500-26563").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want := append(slices.Clone(c.want), "args pilot --access "+b.folder+"/access.json --cache "+b.disk+"/pilotage-job-", " --port-range 26500-26563\n")
			for _, text := range want {
				if !strings.Contains(string(out), text) {
					t.Errorf("the pilot said\n%swant %q in it", out, text)
				}
			}
			if left := b.left(t); len(left) > 0 {
				t.Errorf("left on the node: %q", left)
			}
		})
	}
}

// TestEnds: the job ends as the pilot does, and cleans up.
func TestEnds(t *testing.T) {
	b := newBatch(t)
	b.env = append(b.env, "LEAVES_WITH=6")
	if out, err := b.command(t, "--check").CombinedOutput(); status(t, err) != 6 {
		t.Errorf("ended with %v, want 6\n%s", err, out)
	}
	if left := b.left(t); len(left) > 0 {
		t.Errorf("left on the node: %q", left)
	}
}

// TestSignal: the batch system's signal reaches the pilot, which may take its
// time to say goodbye.
func TestSignal(t *testing.T) {
	b := newBatch(t)
	b.env = append(b.env, "STANDS=1")
	command := b.command(t)
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		switch lines.Text() {
		case "ready":
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		case "told to stop":
			stopped = true
		}
	}
	if code := status(t, command.Wait()); code != 7 || !stopped {
		t.Errorf("ended with %d, pilot told: %v; want 7, true", code, stopped)
	}
	if left := b.left(t); len(left) > 0 {
		t.Errorf("left on the node: %q", left)
	}
}

// TestMissingFiles: what is missing is named.
func TestMissingFiles(t *testing.T) {
	for _, name := range []string{"pilotage", "access.json"} {
		b := newBatch(t)
		if err := os.Remove(filepath.Join(b.folder, name)); err != nil {
			t.Fatal(err)
		}
		out, err := b.command(t).CombinedOutput()
		if status(t, err) != 2 || !strings.Contains(string(out), name+" is not there") {
			t.Errorf("without %s: %v\n%s", name, err, out)
		}
	}
}

// TestAccessOfAPerson: Slurm hands on the environment of whoever submits, and
// PILOTAGE_ACCESS in it is not the pilots' access.
func TestAccessOfAPerson(t *testing.T) {
	b := newBatch(t)
	b.write(t, "other.json", "{}")
	b.env = append(b.env, "PILOTAGE_ACCESS=/home/someone/admin.json")
	for access, more := range map[string][]string{
		filepath.Join(b.folder, "access.json"): nil,
		filepath.Join(b.folder, "other.json"):  {"PILOTAGE_PILOT_ACCESS=" + filepath.Join(b.folder, "other.json")},
	} {
		command := b.command(t)
		command.Env = append(command.Env, more...)
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--access "+access) || strings.Contains(string(out), "someone") {
			t.Errorf("%v: %v\n%s", more, err, out)
		}
	}
}
