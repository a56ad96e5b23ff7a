package matcher

import "sync"

// Compiler compiles expressions and remembers the most recent ones. It is
// safe for concurrent use, so that all pilots of a process can share one.
type Compiler struct {
	mu           sync.Mutex
	requirements generations[*Requirement]
	ranks        generations[*Rank]
}

// NewCompiler remembers at least limit and at most twice as many expressions
// of each kind.
func NewCompiler(limit int) *Compiler {
	return &Compiler{
		requirements: generations[*Requirement]{limit: limit},
		ranks:        generations[*Rank]{limit: limit},
	}
}

// Requirement is CompileRequirement, remembered.
func (c *Compiler) Requirement(text string) (*Requirement, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requirements.get(text, CompileRequirement)
}

// Rank is CompileRank, remembered.
func (c *Compiler) Rank(text string) (*Rank, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ranks.get(text, CompileRank)
}

// generations is a bounded memory of two maps: when the younger is full it
// becomes the older, and what was not asked for meanwhile is forgotten.
type generations[V any] struct {
	limit          int
	younger, older map[string]V
}

func (g *generations[V]) get(text string, compile func(string) (V, error)) (V, error) {
	if value, found := g.younger[text]; found {
		return value, nil
	}
	value, found := g.older[text]
	if !found {
		var err error
		if value, err = compile(text); err != nil {
			return value, err
		}
	}
	if g.younger == nil || len(g.younger) >= g.limit {
		g.older, g.younger = g.younger, make(map[string]V)
	}
	g.younger[text] = value
	return value, nil
}
