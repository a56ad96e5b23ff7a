package workernode

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/pilot/exec"
)

// errRoot tells what a pilot that root has started needs.
var errRoot = errors.New("root has started this pilot, and payloads are not to be root: name their account with --payload-user, e.g. nobody, or start the pilot as a plain user (--payload-user root is for containers that have no other account)")

// PayloadAccount reads the account of payloads, a name or UID:GID; nil is the
// pilot's own.
func PayloadAccount(text string) (*exec.Account, error) {
	switch {
	case text == "root" && os.Geteuid() == 0:
		return nil, nil
	case os.Geteuid() == 0 && text == "":
		return nil, errRoot
	case os.Geteuid() != 0 && text != "":
		return nil, fmt.Errorf("--payload-user %s: only a pilot that root has started can give payloads another account", text)
	case text == "":
		return nil, nil
	}
	uid, gid, _ := strings.Cut(text, ":")
	if known, err := user.Lookup(text); err == nil {
		uid, gid = known.Uid, known.Gid
	}
	account := exec.Account{}
	var err1, err2 error
	account.UID, err1 = strconv.Atoi(uid)
	account.GID, err2 = strconv.Atoi(gid)
	if err1 != nil || err2 != nil || account.UID <= 0 || account.GID <= 0 {
		return nil, fmt.Errorf("--payload-user %s: give the name of a plain user of this node, or its UID:GID", text)
	}
	return &account, nil
}
