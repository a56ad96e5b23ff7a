package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const minimal = "apiVersion: pilotage/v1\nkind: Workflow\nname: bad\n"

// What users get wrong is told by name, with exit code 2, and leaves nothing
// at the queue.
func TestBadInput(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	files := map[string]struct {
		text string
		says []string
	}{
		"malformed YAML": {minimal + "tasks:\n  a: {shell: 'x'\n  b: [\n", []string{"bad.yaml:", "^"}},
		"unknown key":    {minimal + "tasks:\n  a: {shell: x, input: [y]}\n", []string{"bad.yaml:5:", `unknown key "input"`, `did you mean "inputs"`}},
		"bad CEL":        {minimal + "tasks:\n  a: {shell: x, require: 'pilot.memory >= '}\n", []string{"bad.yaml:5:", "require"}},
		"unknown field in CEL": {
			minimal + "tasks:\n  a: {shell: x, require: 'pilot.memry > 1'}\n", []string{"bad.yaml:5:", "memry"},
		},
		"CEL that is no condition": {minimal + "tasks:\n  a: {shell: x, require: 'pilot.memory'}\n", []string{"bad.yaml:5:", "require", "true or false"}},
		"unknown rank":             {minimal + "tasks:\n  a: {shell: x, rank: nearest}\n", []string{"bad.yaml:5:", "nearest"}},
		"unknown input":            {minimal + "tasks:\n  a: {shell: x, inputs: [nobody.txt]}\n", []string{"bad.yaml:5:", "nobody.txt"}},
		"duplicate task":           {minimal + "tasks:\n  a: {shell: x}\n  a: {shell: y}\n", []string{"bad.yaml:6:", "a"}},
		"duplicate input":          {minimal + "files: {f: {source: f}}\ntasks:\n  a: {shell: x, inputs: [f, f]}\n", []string{"bad.yaml:6:", "f"}},
		"two producers":            {minimal + "tasks:\n  a: {shell: x, outputs: [o.txt]}\n  b: {shell: y, outputs: [o.txt]}\n", []string{"tasks a and b both make o.txt"}},
		"cycle": {
			minimal + "tasks:\n  a: {shell: x, inputs: [two], outputs: [one]}\n  b: {shell: y, inputs: [one], outputs: [two]}\n",
			[]string{"circle", "a", "b"},
		},
		"absurd memory":        {minimal + "tasks:\n  a: {shell: x, memory: 99999999TiB}\n", []string{"bad.yaml:5:", "memory"}},
		"absurd count":         {minimal + "tasks:\n  a: {shell: x, foreach: {n: '{0..999999999}'}}\n", []string{"1000000000 tasks", "1000000"}},
		"negative retries":     {minimal + "tasks:\n  a: {shell: x, retries: -1}\n", []string{"bad.yaml:5:", "retries"}},
		"climbing name":        {minimal + "tasks:\n  a: {shell: x, outputs: [../../etc/passwd]}\n", []string{"bad.yaml:5:", "..", "etc/passwd"}},
		"climbing place":       {minimal + "tasks:\n  a: {shell: x, outputs: {o: ../o}}\n", []string{"bad.yaml:5:", ".."}},
		"NUL in a name":        {minimal + "tasks:\n  a: {shell: x, outputs: [\"o\\0\"]}\n", []string{"bad.yaml:5:"}},
		"control in a name":    {minimal + "tasks:\n  a: {shell: x, outputs: [\"o\\e[2J\"]}\n", []string{"bad.yaml:5:"}},
		"leading dash":         {minimal + "tasks:\n  a: {shell: x, outputs: [-rf]}\n", []string{"bad.yaml:5:", "-rf"}},
		"no command":           {minimal + "tasks:\n  a: {outputs: [o]}\n", []string{"bad.yaml:5:", "argv"}},
		"missing source":       {minimal + "files: {f: {source: not-there.txt}}\ntasks:\n  a: {shell: x, inputs: [f]}\n", []string{"not-there.txt"}},
		"empty file":           {"", []string{"bad.yaml"}},
		"something else":       {"\x7fELF\x00\x01\x02", []string{"bad.yaml"}},
		"another API":          {"apiVersion: v9\nkind: Workflow\nname: x\ntasks: {a: {shell: x}}\n", []string{"bad.yaml:1:", "pilotage/v1"}},
		"site without storage": {minimal + "files: {f: {at: {siteZ: 'ftp://x/f'}}}\ntasks:\n  a: {shell: x, inputs: [f]}\n", []string{"ftp"}},
	}
	for name, bad := range files {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(g.dir, "bad.yaml")
			writeFile(t, path, bad.text)
			g.in(t).rejects(bad.says, "submit", "-f", path, "--upload")
		})
	}
	calls := map[string]struct {
		args []string
		says []string
	}{
		"nothing to submit":     {[]string{"submit"}, []string{"nothing to submit"}},
		"file and command":      {[]string{"submit", "-f", "x.yaml", "--", "true"}, []string{"give one of"}},
		"no such file":          {[]string{"submit", "-f", "absent.yaml"}, []string{"absent.yaml"}},
		"a folder":              {[]string{"submit", "-f", g.dir}, []string{g.dir}},
		"bad CEL on the line":   {[]string{"submit", "--require", "pilot.", "--", "true"}, []string{"require"}},
		"bad array":             {[]string{"submit", "--array", "9-x", "--", "true"}, []string{"9-x"}},
		"huge array":            {[]string{"submit", "--array", "0-99999999", "--", "true"}, []string{"100000000", "1000000"}},
		"climbing output":       {[]string{"submit", "--output", "../x", "--", "true"}, []string{"../x"}},
		"unknown flag":          {[]string{"submit", "--frobnicate", "--", "true"}, []string{"--frobnicate"}},
		"unknown command":       {[]string{"frobnicate"}, []string{"frobnicate"}},
		"unknown subcommand":    {[]string{"workflow", "frobnicate"}, []string{"frobnicate"}},
		"too few arguments":     {[]string{"workflow", "show"}, []string{"WORKFLOW is missing", "workflow show WORKFLOW"}},
		"unknown output form":   {[]string{"workflow", "list", "-o", "xml"}, []string{"xml", "jsonl"}},
		"unknown state":         {[]string{"task", "list", "w", "--state", "ASLEEP"}, []string{"ASLEEP", "BLOCKED"}},
		"not a task id":         {[]string{"task", "show", "/nonsense"}, []string{"nonsense"}},
		"bad site name":         {[]string{"site", "add", "../siteA", "--se", "file:///x"}, []string{"../siteA"}},
		"bad storage URL":       {[]string{"site", "add", "siteC", "--se", "gopher://x"}, []string{"gopher"}},
		"relative storage":      {[]string{"site", "add", "siteC", "--se", "file://relative"}, []string{"relative"}},
		"bad mode":              {[]string{"site", "add", "siteC", "--mode", "psychic"}, []string{"psychic", "distributed"}},
		"bad role":              {[]string{"access", "create", "--role", "king"}, []string{"king"}},
		"pilot without a site":  {[]string{"access", "create", "--role", "pilot"}, []string{"site"}},
		"unregistered shared":   {[]string{"submit", "--input", "vo:never.fa", "--", "cat", "never.fa"}, []string{"never.fa"}},
		"control in a file":     {[]string{"file", "register", "a\x1bb", "--at", "siteA=file:///x"}, nil},
		"replica of no site":    {[]string{"file", "register", "a", "--at", "siteQ=file:///x"}, []string{"siteQ"}},
		"replica of other disk": {[]string{"file", "register", "a", "--at", "siteA=file:///etc/passwd"}, []string{"/etc/passwd"}},
	}
	for name, bad := range calls {
		t.Run(name, func(t *testing.T) { g.in(t).rejects(bad.says, bad.args...) })
	}
	if out := g.must("workflow", "list", "--output", "jsonl"); out != "" {
		t.Errorf("refused workflows are at the queue:\n%s", out)
	}
	if out := g.must("file", "list", "--output", "jsonl"); out != "" {
		t.Errorf("files of refused workflows are at the queue:\n%s", out)
	}
	for _, args := range [][]string{
		{"workflow", "show", "w-aaaaaaaaaa"}, {"task", "show", "w-aaaaaaaaaa/x"}, {"workflow", "wait", "never"}, {"task", "logs", "w-aaaaaaaaaa/x"},
		{"site", "show", "siteQ"}, {"pilot", "show", "p-aaaaaaaa"}, {"file", "locate", "vo:never"}, {"workflow", "cancel", "w-aaaaaaaaaa"},
		{"access", "revoke", "aaaaaaaaaaaaaaaa"}, {"task", "explain", "w-aaaaaaaaaa/x"},
	} {
		g.expect(5, []string{args[2]}, args...)
	}
	t.Run("unreachable queue", func(t *testing.T) { unreachable(g.in(t)) })
}

// rejects wants exit code 2, the texts on stderr, nothing on stdout, and no
// stray control characters on the user's terminal.
func (g *grid) rejects(says []string, args ...string) {
	g.t.Helper()
	stdout, stderr, code := g.run(args...)
	if code != 2 || stdout != "" {
		g.t.Errorf("%s: exit %d, want 2; stdout %q\n%s", strings.Join(args, " "), code, stdout, stderr)
	}
	for _, text := range says {
		if !strings.Contains(stderr, text) {
			g.t.Errorf("%s does not say %q:\n%s", strings.Join(args, " "), text, stderr)
		}
	}
	if strings.ContainsAny(stderr, "\x00\x1b\x07") {
		g.t.Errorf("%s: control characters in the message: %q", strings.Join(args, " "), stderr)
	}
}

// unreachable tries a queue that refuses connections, one that accepts and
// says nothing, and one of another authority.
func unreachable(g *grid) {
	t := g.t
	access := func(address string) string {
		path := filepath.Join(g.dir, "elsewhere.json")
		text := strings.ReplaceAll(readFile(t, g.access("admin")), g.queueAddress(), address)
		writeFile(t, path, text)
		return path
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for name, address := range map[string]string{
		"nobody listens": fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)), "nobody answers": silent.Addr().String(), "no such host": "queue.invalid:7420",
	} {
		began := time.Now()
		_, stderr, code := g.run("--access", access(address), "workflow", "list")
		if code != 3 || !strings.Contains(stderr, "cannot be reached") || !strings.Contains(stderr, address) {
			t.Errorf("%s: exit %d, want 3 and %s\n%s", name, code, address, stderr)
		}
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("%s: gave up after %s", name, took)
		}
	}
	other := newGrid(t)
	path := access(other.queueAddress())
	_, stderr, code := g.run("--access", path, "workflow", "list")
	if code != 3 || !strings.Contains(stderr, "does not belong to the authority") {
		t.Errorf("a queue of another authority: exit %d\n%s", code, stderr)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
