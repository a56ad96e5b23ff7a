package wire_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	overlay "github.com/pilotage-grid/pilotage/dht/wire"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/task"
)

// Whatever description the queue takes, a master can give it to a pilot and have it
// kept: one that no pilot could read would hold its slot, and in the end the site.
func TestTheLargestTasksTravel(t *testing.T) {
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	data := make([]byte, task.MaxTaskBytes)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	pool, texts := hex.EncodeToString(data), 0
	text := func(n int) string { // hardly to be compressed
		at := random.IntN(len(pool) - n)
		texts++
		return fmt.Sprintf("%08x", texts)[max(0, 8-n):] + pool[at:at+max(0, n-8)]
	}
	shell := task.Task{Shell: text(task.MaxArgvBytes)}
	word := task.Task{Argv: []string{"./" + text(task.MaxArgvBytes-2)}}
	words := task.Task{Argv: strings.Split(strings.Repeat("x", task.MaxArgv-1), "")}
	words.Argv = append(words.Argv, text(task.MaxArgvBytes-task.MaxArgv))
	variables := task.Task{Shell: "env", Env: map[string]string{"A": text(task.MaxArgvBytes)}}
	for i := range task.MaxTaskBytes/task.MaxArgvBytes - 2 {
		variables.Env["V"+strings.Repeat("_", i)] = text(task.MaxArgvBytes)
	}
	expressions := task.Task{Shell: "true", Require: text(task.MaxExpression - 2*task.MaxContainer), Rank: text(task.MaxExpression), Container: "/" + text(task.MaxContainer-2)}
	files := task.Task{Shell: "true"}
	for range task.MaxInputs {
		files.Inputs = append(files.Inputs, task.Input{LFN: task.LFN("w-abcdefghij:" + text(90)), Name: text(100)})
		files.Outputs = append(files.Outputs, task.Output{LFN: task.LFN("w-abcdefghij:" + text(90)), Name: text(100)})
	}
	long := task.Task{Shell: "true"}
	for range task.MaxTaskBytes/(4*task.MaxLFN+26) - 1 {
		name := func() string { return strings.Join([]string{text(254), text(254), text(254), text(254)}, "/") }
		long.Inputs = append(long.Inputs, task.Input{LFN: task.LFN("w-abcdefghij:" + name()), Name: name()})
		long.Outputs = append(long.Outputs, task.Output{LFN: task.LFN("w-abcdefghij:" + name()), Name: name()})
	}
	for what, one := range map[string]task.Task{
		"shell": shell, "a word": word, "words": words, "variables": variables, "expressions": expressions, "files": files, "long names": long,
	} {
		one.ID = task.ID("w-abcdefghij/" + strings.Repeat("t", 200))
		one.Resources = task.Resources{Cores: 1, Memory: task.DefaultMemory}
		one.Walltime = time.Hour
		if err := one.Validate(); err != nil {
			t.Errorf("%s: the queue does not take it: %v", what, err)
			continue
		}
		lease := task.Lease{ID: 1, TTL: time.Hour, Tasks: []task.LeasedTask{{Task: one, Generation: 1, Number: 1}}}
		for _, in := range one.Inputs {
			maker := task.AttemptID{Task: task.ID("w-abcdefghij/" + text(100)), Generation: 1, Lease: 1, Pilot: "p-abcdefgh", Counter: 1}
			lease.Files = append(lease.Files, task.File{
				LFN: in.LFN, Producer: maker, Announced: []task.Site{"siteA"},
				Replicas: []task.Replica{{Site: "siteA", URL: "https://se.site-a.example:8443/vo/pilotage/" + task.StorageName(maker, in.LFN)}},
			})
		}
		for _, said := range []message.Message{
			message.Assign{Tasks: []message.Assignment{{Task: one, Lease: 1, Generation: 1, Number: 1, Files: lease.Files}}},
			message.KeepCopy{Leases: []task.Lease{lease}}, message.State{Copies: []task.Lease{lease}},
		} {
			encoded := wire.Encode(said)
			if _, err := wire.Decode(encoded); err != nil {
				t.Errorf("%s: nobody can read %T: %v", what, said, err)
			}
			if _, err := overlay.Append(nil, dht.App{Data: encoded}); err != nil {
				t.Errorf("%s: %T does not travel: %v", what, said, err)
			}
		}
	}
}
