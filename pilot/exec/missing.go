package exec

import (
	"os"
	"strings"
)

// missing says what would bring namespaces, beside why there are none.
func missing(why error) string {
	text := why.Error()
	for _, s := range []struct {
		file, bad, hint string
	}{
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000 brings them"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1 brings them"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0 brings them, or an AppArmor profile for pilotage that allows userns"},
	} {
		if value, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(value)) == s.bad && os.Geteuid() != 0 {
			return text + ": " + s.hint
		}
	}
	switch {
	case strings.Contains(text, "own /proc"):
		return text + ": the pilot runs in a container that masks /proc: start it outside, with procMount: Unmasked (Kubernetes), or with --security-opt systempaths=unconfined (Docker, Podman)"
	case strings.Contains(text, "make namespaces"):
		return text + ": the pilot runs in a container that forbids them: allow unshare and mount in its seccomp profile, or start the pilot outside"
	}
	return text
}
