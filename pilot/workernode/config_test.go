package workernode

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/task"
)

func environment(pairs ...string) func(string) string {
	set := make(map[string]string)
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	return func(name string) string { return set[name] }
}

func TestCompleteTakesWhatSlurmSays(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	c := Config{}
	err := c.Complete(environment("SLURM_CPUS_ON_NODE=6", "SLURM_MEM_PER_NODE=4096", "SLURMD_NODENAME=c17", fmt.Sprintf("SLURM_JOB_END_TIME=%d", now.Add(65*time.Minute).Unix())), now)
	if err != nil {
		t.Fatal(err)
	}
	if c.Slots != 6 || c.Resources.Cores != 6 || c.Resources.Memory != 4*task.GiB || c.Lifetime != time.Hour || c.Margin != 5*time.Minute || c.Host != "c17" {
		t.Errorf("completed to %+v", c)
	}
	// What was said counts more than what Slurm says.
	c = Config{Config: agent.Config{
		NodeConfig: agent.NodeConfig{Slots: 2, Resources: task.Resources{Cores: 8, Memory: task.GiB}},
		LifeConfig: agent.LifeConfig{Lifetime: 20 * time.Minute, Grace: time.Second, Margin: time.Minute},
	}}
	if err := c.Complete(environment("SLURM_CPUS_ON_NODE=many", "SLURM_JOB_END_TIME=never", "SLURM_MEM_PER_NODE=9"), now); err != nil {
		t.Fatal(err)
	}
	if c.Slots != 2 || c.Resources.Cores != 8 || c.Resources.Memory != task.GiB || c.Lifetime != 20*time.Minute || c.Margin != time.Minute || c.Grace != time.Second {
		t.Errorf("completed to %+v", c)
	}
}

func TestCompleteWithoutABatchSystem(t *testing.T) {
	c := Config{}
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(environment(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if c.Slots != runtime.NumCPU() || c.Lifetime != 24*time.Hour || c.Margin != 5*time.Minute || c.Grace <= 0 || c.Grace > 25*time.Second || c.Resources.Memory <= 0 || c.Host != own || c.Log == nil {
		t.Errorf("completed to %+v", c)
	}
	again := c
	if err := again.Complete(environment("SLURM_CPUS_ON_NODE=99"), time.Now()); err != nil || again.Slots != c.Slots {
		t.Errorf("completed again to %+v, %v", again, err)
	}
	short := Config{Config: agent.Config{LifeConfig: agent.LifeConfig{Lifetime: 10 * time.Second}}}
	if err := short.Complete(environment(), time.Now()); err != nil || short.Margin != time.Second {
		t.Errorf("a short life drains for %s, %v", short.Margin, err)
	}
}

func TestCompleteRefusesNonsense(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		config agent.Config
		env    string
		says   string
	}{
		"words for CPUs":   {agent.Config{}, "SLURM_CPUS_ON_NODE=4(x2)", "give --slots"},
		"no CPUs":          {agent.Config{}, "SLURM_CPUS_ON_NODE=0", "give --slots"},
		"negative slots":   {agent.Config{NodeConfig: agent.NodeConfig{Slots: -1}}, "", "slots is -1"},
		"absurd slots":     {agent.Config{NodeConfig: agent.NodeConfig{Slots: 1 << 30}}, "", "slots is"},
		"words for an end": {agent.Config{}, "SLURM_JOB_END_TIME=tomorrow", "give --lifetime"},
		"an end too soon":  {agent.Config{}, fmt.Sprintf("SLURM_JOB_END_TIME=%d", now.Unix()+200), "no time for work"},
		"a past end":       {agent.Config{}, "SLURM_JOB_END_TIME=1", "no time for work"},
		"negative life":    {agent.Config{LifeConfig: agent.LifeConfig{Lifetime: -time.Minute}}, "", "lifetime is -1m0s"},
		"no time to work":  {agent.Config{LifeConfig: agent.LifeConfig{Lifetime: time.Minute, Margin: time.Hour}}, "", "drain"},
		"negative grace":   {agent.Config{LifeConfig: agent.LifeConfig{Grace: -1}}, "", "grace"},
		"ports reversed":   {agent.Config{NetworkConfig: agent.NetworkConfig{PortRange: "9-3"}}, "", "9-3"},
		"words for ports":  {agent.Config{NetworkConfig: agent.NetworkConfig{PortRange: "http"}}, "", "LOW-HIGH"},
		"ports too high":   {agent.Config{NetworkConfig: agent.NetworkConfig{PortRange: "1-70000"}}, "", "70000"},
	} {
		config := Config{Config: c.config}
		if err := config.Complete(environment(c.env), now); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestDefaultFolder(t *testing.T) {
	user := fmt.Sprintf("pilotage-%d", os.Getuid())
	for want, env := range map[string][]string{
		"/local/job7":  {"SLURM_TMPDIR=/local/job7", "TMPDIR=/scratch"},
		"/scratch":     {"TMPDIR=/scratch"},
		os.TempDir():   {},
		"/local/other": {"SLURM_TMPDIR=/local/other"},
	} {
		if got := DefaultFolder(environment(env...), "p-1"); got != filepath.Join(want, user, "p-1") {
			t.Errorf("with %v the folder is %s", env, got)
		}
	}
}
