package issuer

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Discover finds the user's own bearer token by WLCG Bearer Token Discovery: in
// $BEARER_TOKEN, the file $BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_uUID, /tmp/bt_uUID. It
// returns "" if there is none. Files that others own are passed over in /tmp.
func Discover(getenv func(string) string) (string, error) {
	if token := strings.TrimSpace(getenv("BEARER_TOKEN")); token != "" {
		return token, nil
	}
	if file := getenv("BEARER_TOKEN_FILE"); file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("bearer token: %w", err)
		}
		return strings.TrimSpace(string(content)), nil
	}
	name := "bt_u" + strconv.Itoa(os.Geteuid())
	for _, folder := range []string{getenv("XDG_RUNTIME_DIR"), "/tmp"} {
		if folder == "" {
			continue
		}
		if token := ownToken(filepath.Join(folder, name)); token != "" {
			return token, nil
		}
	}
	return "", nil
}

// ownToken is what a file holds that is the user's own.
func ownToken(path string) string {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return ""
	}
	content := make([]byte, maxToken)
	n, _ := file.Read(content)
	return strings.TrimSpace(string(content[:n]))
}
