package exec

import (
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// good are payloads that do what payloads do, at every level.
var good = map[string]string{
	"tar":             `mkdir d && echo x > d/f && tar cf d.tar d && rm -r d && tar xpf d.tar && cat d/f`,
	"copy in full":    `echo x > a && chmod 640 a && touch -d 2001-01-01 a && cp -p a b && [ $(stat -c %a-%Y a) = $(stat -c %a-%Y b) ]`,
	"git":             `git init -q r && cd r && echo x > f && git add f && git -c user.name=x -c user.email=x@x commit -qm x && git log | grep -q x`,
	"own namespaces":  `[ $LEVEL = LANDLOCK ] || [ $(id -u) = 0 ] || unshare -Urm sh -c '[ $(id -u) = 0 ] && mount -t tmpfs none $HOME'`,
	"links":           `echo x > a && ln a b && ln -s a c && mkfifo p && mkdir -p e/f && chmod 700 e && mv e g && cat b c`,
	"descendants":     `(sleep 0.05; echo x > late) & wait && cat late; sh -c 'sh -c "exit 3"; [ $? = 3 ]'`,
	"temporary":       `f=$(mktemp) && echo x > $f && cat $f && [ -w $HOME ]`,
	"own processes":   `sleep 30 & kill $! && ! wait $! && [ -e /proc/self/status ] && [ $$ != 1 ]`,
	"devices":         `head -c 10 /dev/urandom > r && echo x > /dev/null && head -c 5 /dev/zero > z && [ $(stat -c %s z) = 5 ]`,
	"compilers":       `printf 'int main(void) { return 42; }' > x.c && gcc -o x x.c && ! ./x && strip x && ar rc x.a x`,
	"own shared":      `id=$(ipcmk -M 4096 | tr -dc 0-9) && ipcs -m -i $id > /dev/null && ipcrm -m $id`,
	"shared memory":   `[ $LEVEL = NONE ] || [ $LEVEL = LANDLOCK ] || { echo x > /dev/shm/x && ln /dev/shm/x /dev/shm/y && cat /dev/shm/y && mkdir /dev/shm/d && [ $(ls /dev/shm | wc -l) = 3 ]; }`,
	"many processes":  `for i in $(seq 200); do sleep 0.1 & done; wait`,
	"own sockets":     `perl -MIO::Socket::UNIX -e 'my $l = IO::Socket::UNIX->new(Local => "s", Listen => 1) or exit 1; exit !IO::Socket::UNIX->new(Peer => "s")'`,
	"locks and holes": `truncate -s 10M holes && flock holes -c 'cp --sparse=always holes copy' && [ $(stat -c %s copy) = 10485760 ]`,
	"names":           `getent passwd root > /dev/null && [ -r /etc/passwd ]`,
	"inputs":          `cmp small large || true; [ $(stat -c %s large) = 3000000 ] && head -c 3 large && cat small`,
	"other machines":  `EXEC_TEST_CONNECT=TCP $SELF $ELSEWHERE`,
	"32 bits":         `echo "$IN_32_BITS" > 32.c && gcc -w -o 32 32.c && ./32`,
	"static":          `printf 'int main(void) { return 0; }' > x.c && gcc -static -o x x.c && ./x`,
	"a nest":          `[ $LEVEL = LANDLOCK ] || [ $(id -u) = 0 ] || unshare -Urmpf sh -c 'mount --rbind / $HOME && mount -t proc proc $HOME/proc && mount -t tmpfs none $HOME/tmp && cd $HOME && pivot_root . tmp && umount -l /tmp && [ -x /bin/sh ] && [ $$ = 1 ]'`,
	"read-only":       `! touch /usr/x 2>/dev/null || [ $(id -u) = 0 ]`,
}

func TestSandboxLetsPayloadsWork(t *testing.T) {
	if !knows32Bits(t) {
		delete(good, "32 bits")
	}
	for level, choose := range suites {
		t.Run(level.String(), func(t *testing.T) {
			besideTemporaryFiles(t)
			self := reachableSelf(t, t.TempDir())
			s := newStand(t, func(c *Config) {
				c.Network.Pilotage, c.Readable = []int{listening(t)}, []string{filepath.Dir(self)}
				choose(t, c)
			})
			if got, why := s.Level(); got != level {
				t.Fatalf("the level is %s: %s", got, why)
			}
			elsewhere := strconv.Itoa(listening(t))
			small, large := s.cached("s", "x", 0o444), s.cached("l", strings.Repeat("abc", 1_000_000), 0o444)
			for name, script := range good {
				spec := s.shell(script)
				maps.Copy(spec.Task.Env, map[string]string{"LEVEL": level.String(), "SELF": self, "ELSEWHERE": elsewhere, "IN_32_BITS": inWordsOf32Bits, raceOptions: noPause})
				spec.Inputs = []StagedInput{{Name: "small", Path: small}, {Name: "large", Path: large}}
				if result := s.run(spec); !result.OK {
					t.Errorf("%s: %s: %s%s", name, result.Reason, result.Stdout, result.Stderr)
				}
			}
			for script, signal := range map[string]string{"kill -ABRT $$": "SIGABRT", "kill $$": "SIGTERM", "kill -9 $$": "SIGKILL", "kill -SEGV $$": "SIGSEGV"} {
				if result := s.run(s.shell(script)); result.Signal != signal {
					t.Errorf("%s: ended by %q, code %d", script, result.Signal, result.ExitCode)
				}
			}
			if level < Namespaces {
				return
			}
			forge := s.shell("chmod u+w large; echo forged >> large; touch large; rm -f small; true")
			forge.Inputs = []StagedInput{{Name: "small", Path: small}, {Name: "large", Path: large}}
			before, err := takeFingerprint(large)
			if err != nil {
				t.Fatal(err)
			}
			s.runOK(forge)
			if after, err := takeFingerprint(large); err != nil || after != before {
				t.Errorf("a bound input was changed: %+v, %+v, %v", before, after, err)
			}
		})
	}
}
