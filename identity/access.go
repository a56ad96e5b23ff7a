package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

const (
	// AccessVersion is the version of access files that is written and read.
	AccessVersion = 1
	// maxAccessFile in bytes; ours have about 1,200.
	maxAccessFile = 64 << 10
)

// AccessFile is all that a client, admin or pilot needs to reach a VO's queue.
type AccessFile struct {
	Version int       `json:"version"`
	Queue   []string  `json:"queue"`  // HOST:PORT of the queue servers
	CAPEM   string    `json:"ca_pem"` // the VO's authority
	Role    Role      `json:"role"`
	Site    task.Site `json:"site,omitempty"`   // always for pilots
	Person  string    `json:"person,omitempty"` // for whom the queue takes its bearer
	Groups  []string  `json:"groups,omitempty"` // of the person
	Token   string    `json:"token"`            // "pil_ID_SECRET"
	Expires time.Time `json:"expires"`          // of the token
}

// decodeAccessFile reads and checks the content of an access file. Keys that
// it does not know are passed over: later versions of the same format may add
// some. No error repeats the token.
func decodeAccessFile(content []byte, now time.Time) (*AccessFile, error) {
	var version struct{ Version *int }
	if err := json.Unmarshal(content, &version); err != nil {
		return nil, fmt.Errorf("not an access file: %w: %s", ErrMalformed, reasonOf(err))
	}
	switch {
	case version.Version == nil:
		return nil, fmt.Errorf("not an access file: key version is missing: %w", ErrMalformed)
	case *version.Version != AccessVersion:
		return nil, fmt.Errorf("access file version %d, this program reads version %d: use a pilotage of the queue's release: %w", *version.Version, AccessVersion, ErrMalformed)
	}
	var access AccessFile
	if err := json.Unmarshal(content, &access); err != nil {
		return nil, fmt.Errorf("access file: %w: %s", ErrMalformed, reasonOf(err))
	}
	if err := access.validate(); err != nil {
		return nil, err
	}
	if !now.Before(access.Expires) {
		return nil, &ExpiredError{Subject: "the access", Expired: access.Expires, Advice: "ask the VO's admin for a new access file"}
	}
	return &access, nil
}

// reasonOf describes a JSON error by place and kind only: the text of the
// file holds a secret.
func reasonOf(err error) string {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong):
		return fmt.Sprintf("wrong type of value for key %q at byte %d", wrong.Field, wrong.Offset)
	case errors.As(err, &syntax):
		return fmt.Sprintf("not JSON at byte %d", syntax.Offset)
	}
	return "a value cannot be read (is expires a time of RFC 3339?)"
}

func (a *AccessFile) validate() error {
	if a.Version != AccessVersion {
		return fmt.Errorf("access file: version %d instead of %d: %w", a.Version, AccessVersion, ErrMalformed)
	}
	if len(a.Queue) == 0 {
		return fmt.Errorf("access file: key queue is missing or empty: give at least one HOST:PORT: %w", ErrMalformed)
	}
	for _, address := range a.Queue {
		host, port, err := net.SplitHostPort(address)
		number, portErr := strconv.ParseUint(port, 10, 16)
		if err != nil || portErr != nil || host == "" || number == 0 {
			return fmt.Errorf("access file: queue address %.100q is not HOST:PORT: %w", address, ErrMalformed)
		}
	}
	if a.CAPEM == "" {
		return fmt.Errorf("access file: key ca_pem is missing: %w", ErrMalformed)
	}
	if _, err := ParseAuthorities([]byte(a.CAPEM)); err != nil {
		return fmt.Errorf("access file: key ca_pem: %w", err)
	}
	if err := a.validateToken(); err != nil {
		return err
	}
	if a.Expires.IsZero() {
		return fmt.Errorf("access file: key expires is missing: %w", ErrMalformed)
	}
	return nil
}

func (a *AccessFile) validateToken() error {
	if a.Role == RoleBearer {
		if a.Token != "" {
			return fmt.Errorf("access file: role %s shows a token of its user and names none: %w", a.Role, ErrMalformed)
		}
		return nil
	}
	if err := checkScope(a.Role, a.Site); err != nil {
		return fmt.Errorf("access file: %w: %w", ErrMalformed, err)
	}
	if a.Token == "" {
		return fmt.Errorf("access file: key token is missing: %w", ErrMalformed)
	}
	if _, _, err := ParseToken(a.Token); err != nil {
		return fmt.Errorf("access file: %w", err)
	}
	return nil
}

// Forget drops the token from the access file, for a pilot that registered.
// Go cannot overwrite a string: what was in memory goes with the garbage
// collector, so a process that guards it against others of the same user must
// also be closed to /proc (prctl PR_SET_DUMPABLE 0 or Landlock).
func (a *AccessFile) Forget() { a.Token = "" }

// Format prints the access file without its token, for every verb.
func (a AccessFile) Format(state fmt.State, _ rune) {
	fmt.Fprintf(state, "access as %s", a.Role)
	if a.Site != "" {
		fmt.Fprintf(state, " of site %s", a.Site)
	}
	fmt.Fprintf(state, " to %v until %s (token hidden)", a.Queue, a.Expires.UTC().Format(time.RFC3339))
}

// String is the same text as Format's.
func (a AccessFile) String() string { return fmt.Sprint(a) }

// LogValue leaves the token out.
func (a AccessFile) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("queue", a.Queue), slog.String("role", string(a.Role)),
		slog.String("site", string(a.Site)), slog.Time("expires", a.Expires))
}
