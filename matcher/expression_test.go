package matcher

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func samplePilot() *Pilot {
	return &Pilot{
		ID: "p-aaaaaaaa", Site: "siteA", Host: "node7", Walls: task.Walls{Confinement: task.ConfinementNamespaces, Up: []string{"files", "ipc"}},
		Resources: task.Resources{Cores: 4, Memory: 8 * task.GiB, Disk: 100 * task.GiB},
		Slots:     4, Features: []string{"avx2", "gpu"}, Arch: "amd64", OS: "linux",
		Load: 0.5, Lifetime: 2 * time.Hour,
	}
}

func sampleFacts() Facts {
	return Facts{
		Pilot: samplePilot(),
		Task: &task.Task{
			ID: "w-abcdefghij/index[07]", Priority: 3, Walltime: time.Hour,
			Resources: task.Resources{Cores: 2, Memory: task.GiB, Disk: task.GiB},
		},
		Files: []FileInfo{
			{Key: "lfn:a", LFN: "w-abcdefghij:a.fa", Size: 10 * task.MiB},
			{Key: "lfn:b", LFN: "w-abcdefghij:b.fa", Size: 30 * task.MiB},
		},
		Local: func(key task.FileKey) bool { return key == "lfn:b" },
	}
}

func TestRequirementsSeePilotTaskAndFiles(t *testing.T) {
	for text, want := range map[string]bool{
		``: true,
		`pilot.memory >= 500 * MiB && "avx2" in pilot.features`:            true,
		`pilot.memory >= 500 * GiB`:                                        false,
		`pilot.cores == 4 && pilot.slots >= task.cores`:                    true,
		`pilot.disk > 99 * GiB && pilot.disk < 1 * TiB`:                    true,
		`pilot.site == "siteA" || pilot.host == "x"`:                       true,
		`pilot.arch == 'amd64' && pilot.os != "plan9"`:                     true,
		`pilot.confinement >= NAMESPACES && pilot.confinement < CONTAINER`: true,
		`pilot.confinement == NONE || !("ipc" in pilot.walls)`:             false,
		`pilot.images.exists(f, "/cvmfs/x".startsWith(f))`:                 false,
		`pilot.id.startsWith("p-")`:                                        true,
		`pilot.load < 1`:                                                   true,
		`pilot.lifetime_seconds > task.walltime_seconds`:                   true,
		`task.name == "index[07]" && task.workflow == "w-abcdefghij"`:      true,
		`task.id.matches("^w-[a-z2-7]{10}/") && task.priority == 3`:        true,
		`task.inputs == 2 && task.input_bytes == 40 * MiB`:                 true,
		`task.local_inputs == 1 && task.local_bytes == 30 * MiB`:           true,
		`task.memory == GiB && task.disk == GiB && 1000 * MB == GB`:        true,
		`files.exists(f, f.local && f.size > 20 * MiB)`:                    true,
		`files.all(f, f.name.endsWith(".fa"))`:                             true,
		`files.filter(f, !f.local).size() == 1 && !files[0].local`:         true,
		`files.exists_one(f, f.name == "a.fa") && files[1].size > KB`:      false,
		`task.cores > 0 ? "gpu" in pilot.features : false`:                 true,
		`1 / (task.inputs - 2) == 0`:                                       false,
		`files[7].local`:                                                   false,
		`dyn(pilot.memory)`:                                                false,
		`has(files[0].name) && TiB == 1024 * GiB && 1024 * KiB == 1 * MiB`: true,
	} {
		requirement, err := CompileRequirement(text)
		if strings.Contains(text, "KB") {
			if err == nil {
				t.Errorf("%s: compiled although KB is not a unit", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if verdict := requirement.Check(sampleFacts()); verdict.Feasible != want {
			t.Errorf("%s: %+v, want feasible = %v", text, verdict, want)
		}
	}
}

func TestTheFirstFailingClauseIsNamedAsWritten(t *testing.T) {
	for text, want := range map[string]string{
		`pilot.cores >= 1 && pilot.memory>=16*GiB && "tpu" in pilot.features`: `pilot.memory>=16*GiB`,
		`(pilot.cores >= 1 && ("tpu" in pilot.features || false))`:            `"tpu" in pilot.features || false`,
		`pilot.cores >= 1 && false || pilot.site == "x"`:                      `pilot.cores >= 1 && false || pilot.site == "x"`,
		`pilot.site == "a && b" && true`:                                      `pilot.site == "a && b"`,
		`pilot.site == r'a\' && true`:                                         `pilot.site == r'a\'`,
		"true // all && good\n && pilot.cores == 1":                           `pilot.cores == 1`,
		`1 / (task.inputs - 2) == 0`:                                          `1 / (task.inputs - 2) == 0 (division by zero)`,
		`dyn(1)`:                                                              `dyn(1) (neither true nor false)`,
	} {
		requirement, err := CompileRequirement(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if verdict := requirement.Check(sampleFacts()); verdict.FailedClause != want {
			t.Errorf("%s: failed clause %q, want %q", text, verdict.FailedClause, want)
		}
	}
}

func TestResourcesAreCheckedBeforeTheExpression(t *testing.T) {
	requirement, err := CompileRequirement(`false`)
	if err != nil {
		t.Fatal(err)
	}
	for want, need := range map[string]task.Resources{
		"cores 5 <= pilot's 4":          {Cores: 5},
		"memory 16GiB <= pilot's 8GiB":  {Cores: 1, Memory: 16 * task.GiB},
		"disk 200GiB <= pilot's 100GiB": {Cores: 1, Disk: 200 * task.GiB},
		"gpus 2 <= pilot's 0":           {Cores: 1, GPUs: 2},
		"false":                         {Cores: 4, Memory: 8 * task.GiB, Disk: 100 * task.GiB},
	} {
		facts := sampleFacts()
		facts.Task = &task.Task{Resources: need}
		if got := requirement.Check(facts).FailedClause; got != want {
			t.Errorf("need %+v: failed clause %q, want %q", need, got, want)
		}
	}
}

func TestUsesDecideHowOftenAnExpressionIsEvaluated(t *testing.T) {
	for text, want := range map[string]Uses{
		`pilot.memory > 1 * GiB`:                   {Pilot: true},
		`task.memory < 2 * GiB`:                    {},
		`task.name == "x" && pilot.cores > 1`:      {Pilot: true, Task: true},
		`files.exists(f, f.local)`:                 {Files: true},
		`task.local_bytes > 0 && task.inputs > 0`:  {Task: true, Files: true},
		`["a"].exists(p, p == pilot.site) && true`: {Pilot: true},
		`"ipc" in pilot.walls && pilot.cores > 1`:  {Pilot: true, Node: true},
	} {
		requirement, err := CompileRequirement(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if requirement.uses != want {
			t.Errorf("%s: uses %+v, want %+v", text, requirement.uses, want)
		}
	}
}

func TestWhatIsForeseenOfAPilot(t *testing.T) {
	shape := Pilot{Site: "siteA", Resources: task.Resources{Cores: 2, Memory: task.GiB}, Features: []string{"avx2"}}
	for text, want := range map[string]bool{
		`pilot.site == "siteA" && "avx2" in pilot.features`:        true,
		`pilot.site == "siteB"`:                                    false,
		`pilot.confinement >= NAMESPACES && "ipc" in pilot.walls`:  true,
		`pilot.images.exists(f, "/cvmfs/x".startsWith(f))`:         true,
		`pilot.confinement >= NAMESPACES && pilot.site == "siteB"`: false,
		`pilot.load < 0.5 && pilot.host != "bad"`:                  true,
		`task.priority > 5 && "gpu" in pilot.features`:             false,
	} {
		requirement, err := CompileRequirement(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := requirement.foresee(Facts{Pilot: &shape, Task: &task.Task{Resources: task.Resources{Cores: 1}}})
		if got.Feasible != want {
			t.Errorf("%s: %+v, want %t", text, got, want)
		}
	}
}

func TestBadExpressionsGetPositionAndHint(t *testing.T) {
	for _, c := range []struct {
		kind ExpressionKind
		text string
		want string
	}{
		{RequirementExpression, `pilot.memroy >= 1`, `requirement, line 1 column 1: unknown name "pilot.memroy": did you mean pilot.memory?`},
		{RequirementExpression, `pilot.cores > 1 && pilot.memory >= 1 * Gib`, `requirement, line 1 column 40: unknown name "Gib": did you mean GiB?`},
		{RequirementExpression, "pilot.cores > 1\n && xyzzy_quux_frob", `requirement, line 2 column 5: unknown name "xyzzy_quux_frob": known are`},
		{RequirementExpression, `files.exists(f, f.locale)`, `a file has no field "locale": it has name, size and local`},
		{RequirementExpression, `pilot.confinement >= "NAMESPACES"`, `compared with a text, and levels have an order: write a level without quotes, for example pilot.confinement >= NAMESPACES`},
		{RequirementExpression, `pilot.cores > 1 && 'LANDLOCK' <= pilot.confinement`, `without quotes`},
		{RequirementExpression, `pilot.confinement == NAMESPACE`, `did you mean NAMESPACES?`},
		{RequirementExpression, `pilot.memory >= 1.5 * GiB`, `write 1536 * MiB`},
		{RequirementExpression, `pilot.memory`, `its value is of type int: a requirement must be true or false`},
		{RequirementExpression, `pilot.cores > 1 and pilot.cores < 3`, `line 1 column 17: "and" is not expected here: write CEL, for example pilot.memory`},
		{RequirementExpression, `pilot.cores > `, `it breaks off here`},
		{RequirementExpression, `(pilot.cores > 1`, `is missing`},
		{RequirementExpression, `files.map(f, f.size).size() > 0`, `requirement, line 1`},
		{RequirementExpression, `files == files`, `line 1 column 1: files can be searched`},
		{RequirementExpression, `[files].all(f, true)`, `files can be searched`},
		{RequirementExpression, `files.all(f, f in files)`, `files can be searched`},
		{RequirementExpression, `[[1], [2]].all(l, l == l)`, `only lists of single values can be searched`},
		{RequirementExpression, `pilot.host + pilot.host == "aa"`, `+ adds numbers`},
		{RequirementExpression, `dyn(pilot.host) + dyn([1]) == "aa"`, `+ adds numbers`},
		{RequirementExpression, strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60), `requirement, line 1`},
		{RequirementExpression, strings.Repeat("true && ", 2000) + "true", `at most 8192 are allowed`},
		{RequirementExpression, `pilot.host.matches("((abcd){30}){30}")`, `requirement, line 1 column 19: matches(): patterns of more than`},
		{RequirementExpression, `pilot.host.matches(pilot.site)`, `the pattern must be a text between quotes`},
		{RequirementExpression, `pilot.host.matches("[")`, `missing closing ]`},
		{RankExpression, `pilot.site`, `its value is of type string: a rank must be a number`},
		{RankExpression, `localty`, `unknown name "localty": did you mean locality? Ranks by name are locality, overlap, rest, combined`},
		{RankExpression, `nearest_first`, `ranks by name are locality, overlap`},
		{RankExpression, `dad(-1)`, `did you mean dad(BETA)`},
		{RankExpression, `pilot.laod`, `did you mean pilot.load?`},
		{RankExpression, `1+`, `rank, line 1 column 3: it breaks off here: a value or a bracket is missing: write CEL, for example pilot.core_speed`},
		{RankExpression, `true`, `its value is true for every task and pilot: a rank must be a finite number`},
		{RankExpression, `1/0`, `it cannot be computed: division by zero: a rank must be a finite number`},
		{RankExpression, `1.0/0.0`, `its value is +Inf`},
		{RankExpression, `dyn("seven")`, `its value is seven`},
		{AcceptExpression, `load <`, `for example load < 0.5`},
		{ExpressionKind("wish"), `1`, `unknown kind of expression "wish"`},
	} {
		err := Check(c.kind, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: error %v, want one with %q", c.text, err, c.want)
			continue
		}
		if target := (*ExpressionError)(nil); c.kind != "wish" && !errors.As(err, &target) {
			t.Errorf("%.60s: error of type %T", c.text, err)
		}
	}
	for _, good := range []string{"", "locality", "overlap", "overlap_bytes", "rest", "rest_bytes", "pilot.memory"} {
		if err := Check(RankExpression, good); err != nil {
			t.Errorf("rank %q: %v", good, err)
		}
	}
}

func TestAnExpensiveExpressionIsInterrupted(t *testing.T) {
	facts := sampleFacts()
	for len(facts.Files) < task.MaxInputs {
		facts.Files = append(facts.Files, facts.Files[0])
	}
	for text, want := range map[string]Verdict{
		`files.all(a, a.size >= 0 && a.name != "")`:                    {Feasible: true},
		`files.all(a, files.all(b, a.size + b.size >= 0))`:             {FailedClause: `files.all(a, files.all(b, a.size + b.size >= 0)) (takes too many steps)`},
		`files.exists(a, files.filter(b, b.size < a.size).size() < 0)`: {FailedClause: `files.exists(a, files.filter(b, b.size < a.size).size() < 0) (takes too many steps)`},
	} {
		requirement, err := CompileRequirement(text)
		if err != nil {
			t.Fatal(err)
		}
		if verdict := requirement.Check(facts); verdict != want {
			t.Errorf("%s: %+v", text, verdict)
		}
	}
}

func TestBuiltInRanks(t *testing.T) {
	rates := Rates{Peer: 10e6, SE: 5e6, Remote: 1e6, PerFile: time.Second}
	facts := sampleFacts()
	facts.Files = []FileInfo{
		{Key: "lfn:a", Size: 10e6, Source: task.SourcePeer},
		{Key: "lfn:b", Size: 30e6, Source: task.SourceSE},
		{Key: "lfn:c", Size: -1, Source: task.SourceRemote},
		{Key: "lfn:d", Size: 2e6, Source: task.SourceRemote},
	}
	for name, want := range map[string]float64{ // lfn:b is in the cache
		"":                           (1 + 6) - 0.1*(1+1+1+1+2),
		"locality":                   (1 + 6) - 0.1*(1+1+1+1+2),
		"overlap":                    1,
		"overlap_bytes":              30e6,
		"rest":                       1.0 / 3,
		"rest_bytes":                 1.0 / (12e6 + 1),
		"task.local_inputs":          1,
		"pilot.load":                 0.5,
		"uint(7)":                    7,
		"pilot.site == 'siteA'":      1,
		"pilot.site == 'siteB'":      0,
		"1.0 / 0.0":                  maxRank,
		"0.0 / 0.0":                  0,
		"1 / (task.inputs - 4)":      0,
		"dyn('seven')":               0,
		"-double(task.priority)/2.0": -1.5,
	} {
		rank, err := CompileRank(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := rank.Of(facts, rates); math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
			t.Errorf("%s: rank %g, want %g", name, got, want)
		}
	}
	facts.Files = facts.Files[1:2]
	if got, _ := CompileRank("rest"); got.Of(facts, rates) != NothingMissing {
		t.Errorf("rest with nothing missing is %g", got.Of(facts, rates))
	}
}

// TestClausesTogetherSayWhatTheWholeSays joins clauses at random and compares
// the verdict on the parts with the value of the whole.
func TestClausesTogetherSayWhatTheWholeSays(t *testing.T) {
	atoms := []string{
		`true`, `false`, `pilot.cores > 1`, `pilot.memory > 9 * GiB`, `"a && b" == 'c'`, `(true || false)`,
		`(true && false)`, `(true ? true : false)`, `files.exists(f, f.local && f.size > 0)`, `!("x" in ["&&", ")"])`,
		`'''"''' != "'"`, `r"\" == "\\"`, `((pilot.slots == 4) && true)`,
	}
	joins := []string{" && ", "&&", " || ", "\n&& ", " && // why && not\n"}
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for i := range rapid.IntRange(1, 5).Draw(t, "atoms") {
			if i > 0 {
				text += rapid.SampledFrom(joins).Draw(t, "join")
			}
			text += rapid.SampledFrom(atoms).Draw(t, "atom")
		}
		if rapid.Bool().Draw(t, "enclosed") {
			text = "( " + text + " )"
		}
		requirement, err := CompileRequirement(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		facts := sampleFacts()
		whole, err := compileClause(text)
		if err != nil {
			t.Fatal(err)
		}
		value, err := whole.evaluate(&facts)
		if err != nil {
			t.Fatal(err)
		}
		verdict := requirement.Check(facts)
		if verdict.Feasible != value.(bool) {
			t.Fatalf("%s is %v, its clauses %q say %+v", text, value, requirement.Clauses(), verdict)
		}
		if !verdict.Feasible && !slices.Contains(requirement.Clauses(), verdict.FailedClause) {
			t.Fatalf("failed clause %q is none of %q", verdict.FailedClause, requirement.Clauses())
		}
	})
}

func TestCompilerForgetsWhatIsNotAskedFor(t *testing.T) {
	compiler := NewCompiler(2)
	first, err := compiler.Requirement("pilot.cores > 1")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := compiler.Requirement("pilot.cores > 1"); again != first {
		t.Error("compiled again although remembered")
	}
	for _, text := range []string{"true", "false", "pilot.cores > 2", "pilot.cores > 3"} {
		if _, err := compiler.Requirement(text); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := compiler.Requirement("pilot.cores > 1"); again == first {
		t.Error("remembered beyond the bound")
	}
	if total := len(compiler.requirements.younger) + len(compiler.requirements.older); total > 4 {
		t.Errorf("%d expressions remembered, at most 4 allowed", total)
	}
	if _, err := compiler.Rank("nonsense"); err == nil {
		t.Error("nonsense compiled")
	}
}

// A constant number is a rank that prefers nothing, and truth values that differ
// are ranks of 1 and 0.
func TestGoodRanksPassTheCheck(t *testing.T) {
	for _, text := range []string{"", "0", "1.5", "uint(7)", "2 * GiB", "locality", "dad(0.8)", "pilot.site == 'siteA'", "task.cores", "1 / task.inputs", exampleOf[RankExpression]} {
		if err := Check(RankExpression, text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for kind, text := range exampleOf {
		if err := Check(kind, text); err != nil {
			t.Errorf("the example for a %s is refused: %v", kind, err)
		}
	}
}

func FuzzRequirement(f *testing.F) {
	for _, seed := range []string{
		"", "true", `pilot.memory >= 500 * MiB && "avx2" in pilot.features`,
		`files.exists(f, f.local && f.size > 1 * GiB) || task.priority > 3`,
		`pilot.host.matches("^node[0-9]+$")`, `((((`, `"a" + 'b`, "r'''", `1/0 == 1`, "a&&", `[[[[[]]]]]`,
		`files.all(a, files.all(b, files.all(c, a.size+b.size+c.size > 0)))`, "\x00", "`a`", `dyn(files)[0].x`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		facts := sampleFacts()
		if requirement, err := CompileRequirement(text); err == nil {
			verdict := requirement.Check(facts)
			if verdict.Feasible != (verdict.FailedClause == "") {
				t.Fatalf("%q: %+v", text, verdict)
			}
			if len(verdict.FailedClause) > maxClauseText+len("...") {
				t.Fatalf("%q: a clause of %d bytes", text, len(verdict.FailedClause))
			}
		}
		if rank, err := CompileRank(text); err == nil {
			if value := rank.Of(facts, DefaultRates()); math.IsNaN(value) || math.IsInf(value, 0) {
				t.Fatalf("%q: rank %g", text, value)
			}
		}
	})
}
