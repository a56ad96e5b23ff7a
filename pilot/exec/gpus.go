package exec

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// gpuVariables name a payload's GPUs to CUDA and to ROCm.
var gpuVariables = []string{"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}

// gpus gives each of the pilot's GPUs to one payload at a time.
type gpus struct {
	mutex sync.Mutex
	free  []string
}

// take returns n free GPUs; the master gives no pilot more tasks than it has
// GPUs for, so fewer are there only when the two disagree.
func (g *gpus) take(n int) ([]string, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if n > len(g.free) {
		return nil, fmt.Errorf("the task needs %d GPUs and %d of this pilot's are free", n, len(g.free))
	}
	taken := slices.Clone(g.free[:n])
	g.free = slices.Delete(g.free, 0, n)
	return taken, nil
}

func (g *gpus) giveBack(taken []string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.free = append(g.free, taken...)
}

// gpuEnvironment is what tells the payload its GPUs. Where the pilot has some,
// a payload that asked for none is told that it has none.
func (a *attempt) gpuEnvironment(values map[string]string) {
	if len(a.runner.cfg.GPUs) == 0 {
		return
	}
	for _, name := range gpuVariables {
		values[name] = strings.Join(a.gpus, ",")
	}
}
