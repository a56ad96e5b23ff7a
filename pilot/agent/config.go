package agent

import (
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Config says how a pilot runs, in groups. See Complete for the defaults.
type Config struct {
	NodeConfig
	LifeConfig
	NetworkConfig

	Access  *identity.AccessFile
	Version string
	// Journal is a file for what this pilot's master was told and assigned, for
	// a replay; empty is none.
	Journal string
	Log     *slog.Logger
	// Events, if set, is told what happens to the pilot. It is called from the pilot's
	// own goroutines and must not block.
	Events func(Event)
}

// NodeConfig is what the pilot says of its worker node, and when it takes work there.
type NodeConfig struct {
	// Host names the worker node: pilots of one host share its faults.
	Host string
	// Slots is how many payloads run at once.
	Slots int
	// Resources that payloads may use in all.
	Resources task.Resources
	Features  []string
	// CoreSpeed is of one core, in GHz; 0 when not known.
	CoreSpeed float64
	// Acceptance is the pilot's own policy on when it takes new work; nil is always.
	Acceptance *matcher.Acceptance
}

// LifeConfig is how long the pilot lives.
type LifeConfig struct {
	// Lifetime of the pilot since it began, Margin before its end in which it drains,
	// Grace that running payloads get when it is told to stop.
	Lifetime time.Duration
	Margin   time.Duration
	Grace    time.Duration
	// Began is when the lifetime began; zero is when the configuration is completed.
	Began time.Time
	// Idle ends the pilot when it had nothing to do for so long; 0 is never.
	Idle time.Duration
	// BatchJob is the batch system's id of this pilot's job.
	BatchJob string
	// OnlyChecks has the pilot look whether it could work here, and leave again. It
	// counts nowhere, and cannot be master.
	OnlyChecks bool
}

// NetworkConfig is how the pilot is connected with others.
type NetworkConfig struct {
	// PortRange "LOW-HIGH" for the pilot's two ports; empty is ephemeral.
	PortRange string
	// Advertise is an address or a CIDR; empty is the interface that reaches
	// the queue.
	Advertise string
	Overlay   dht.Config
	// Carrier carries the bytes between pilots; nil stands for TCP.
	Carrier node.Carrier
	// ToQueue are further options of the connection to the queue.
	ToQueue []grpc.DialOption
}

// defaults of a pilot.
const (
	defaultLifetime = 24 * time.Hour
	defaultGrace    = 15 * time.Second // batch systems kill 30 s after SIGTERM; see life.go
	longestMargin   = 5 * time.Minute  // of those that are not given
)

// Complete fills in what has a default, and refuses what makes no sense.
func (c *Config) Complete() error {
	if c.Slots < 1 || c.Slots > task.MaxCores {
		return fmt.Errorf("slots is %d: give 1 to %d", c.Slots, task.MaxCores)
	}
	if c.Lifetime == 0 {
		c.Lifetime = defaultLifetime
	}
	if c.Lifetime < 0 || c.Margin < 0 || c.Grace < 0 || c.Idle < 0 {
		return fmt.Errorf("lifetime is %s, drain %s, grace %s, idle %s: times cannot be negative", c.Lifetime, c.Margin, c.Grace, c.Idle)
	}
	if c.Margin >= c.Lifetime {
		return fmt.Errorf("a pilot that lives %s cannot drain for %s: no time is left for work", c.Lifetime, c.Margin)
	}
	if _, err := node.ParsePortRange(c.PortRange); err != nil {
		return err
	}
	if c.Margin == 0 {
		c.Margin = min(c.Lifetime/10, longestMargin)
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Began.IsZero() {
		c.Began = time.Now()
	}
	if c.Resources.Cores == 0 {
		c.Resources.Cores = c.Slots
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Events == nil {
		c.Events = func(Event) {}
	}
	return nil
}

// Ends is when the pilot's life is over.
func (c *LifeConfig) Ends() time.Time { return c.Began.Add(c.Lifetime) }

// brief says what a pilot that lives short will not get; empty if it lives long enough
// for any task.
func (c *LifeConfig) brief() string {
	if c.Lifetime-c.Margin > matcher.UnknownRun {
		return ""
	}
	return fmt.Sprintf("it takes tasks for %s only: it gets none but those that ask for less walltime or whose kind is known to run shorter; give --lifetime more than %s for others",
		c.Lifetime-c.Margin, matcher.UnknownRun+c.Margin)
}
