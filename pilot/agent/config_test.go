package agent

import (
	"testing"
	"time"
)

// A pilot that gets no ordinary task says so.
func TestAVeryShortLifeIsSpokenOf(t *testing.T) {
	for lifetime, short := range map[time.Duration]bool{30 * time.Second: true, time.Minute: true, 2 * time.Minute: false, 24 * time.Hour: false} {
		config := Config{NodeConfig: NodeConfig{Slots: 1}, LifeConfig: LifeConfig{Lifetime: lifetime}}
		if err := config.Complete(); err != nil {
			t.Fatal(err)
		}
		if said := config.brief(); (said != "") != short {
			t.Errorf("a life of %s: %q", lifetime, said)
		}
	}
}
