package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

const (
	// accessSoon is how long before its end an access is to be renewed.
	accessSoon = day
	// authoritySoon leaves time for the steps of a rotation, between which pilots end
	// and everybody gets a new access file.
	authoritySoon = 180 * day
	// clockOff is how far clocks may differ before times in logs mislead and
	// certificates are refused, as in a pilot's self-check.
	clockOff = 5 * time.Minute
	// roomLeft is the least free space of a queue's disk.
	roomLeft = task.GiB
	// backupOld is how old the newest backup may be: one each night, and one missed.
	backupOld = 2 * day
	// manyDescriptors are enough for some 1,500 pilots and their users; see server's
	// connection limits.
	manyDescriptors = 8192
	// doctorPatience bounds each call.
	doctorPatience = 10 * time.Second
)

// examination collects what is found.
type examination struct{ findings []agent.Finding }

// note keeps a finding; the error, if there is one, says why and what to do.
func (e *examination) note(what string, err error, format string, args ...any) {
	finding := agent.Finding{What: what, OK: err == nil, Detail: fmt.Sprintf(format, args...)}
	if err != nil {
		finding.Detail = strings.ReplaceAll(explain(err), "\n", " ")
	}
	e.findings = append(e.findings, finding)
}

func newDoctor(a *app) *cobra.Command {
	var data, backups string
	command := &cobra.Command{
		Use: "doctor", Short: "Say what is wrong, why, and what to do next, with this access or a queue's folder", Args: asUsed,
		Long: `Without --data it looks at your access file, and asks the queue with it: is the file
readable for you only, when does it end, does the queue answer and take work, do the
clocks agree, does the queue take the access.

With --data it looks at the folder of a queue on this machine, as the queue's user: modes
of what is secret, room on its disk, the end of its authority and a rotation under way, the file descriptors of the queue that runs, the
database (all of it is read if no queue runs on it), and the age of the newest backup.

What a worker node lacks the pilot tells itself: pilotage pilot --check.

Exit codes: 0 nothing is wrong, 1 something is.`,
		Example: `  pilotage doctor
  pilotage doctor --data /var/lib/pilotage --backups /backup`,
		RunE: func(c *cobra.Command, _ []string) error {
			var found examination
			if data != "" {
				found.lookAtQueue(c.Context(), data, backups)
			} else {
				a.lookAtClient(c.Context(), &found)
			}
			if err := c.Context().Err(); err != nil { // what failed, failed for that
				return err
			}
			bad, err := a.out.printFindings(found.findings)
			if err == nil && bad > 0 {
				err = coded(exitInternal, "%d of %s failed", bad, task.Counted(len(found.findings), "check"))
			}
			return err
		},
	}
	command.Flags().StringVar(&data, "data", "", "data folder of a queue on this machine, to look at instead")
	command.Flags().StringVar(&backups, "backups", "", "folder in which the folders of backups lie, with --data")
	return command
}

func (a *app) lookAtClient(ctx context.Context, found *examination) {
	path, _ := identity.ResolveAccessPath(a.access, a.getenv)
	access, err := a.readAccess()
	if found.note("access file", err, "%s", path); err != nil {
		return
	}
	if left := time.Until(access.Expires); left < accessSoon {
		err = fmt.Errorf("it ends at %s: ask the queue's operator for a new one (pilotage access create)", access.Expires.UTC().Format(inUTC))
	}
	found.note("end of the access", err, "%s", access.Expires.UTC().Format(inUTC))
	c, err := connectShowing(access, func() string { return a.token(access) })
	if err != nil {
		found.note("queue", err, "")
		return
	}
	defer c.close()
	if found.lookAtAnswer(ctx, c) {
		found.lookAtRole(ctx, c, access)
	}
}

// lookAtAnswer asks for the queue's health, and tells whether it answers.
func (e *examination) lookAtAnswer(ctx context.Context, c *clients) bool {
	limited, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	var header metadata.MD
	asked := time.Now()
	health, err := healthpb.NewHealthClient(c.conn).Check(limited, &healthpb.HealthCheckRequest{}, grpc.Header(&header))
	answered := time.Now()
	if err != nil {
		e.note("queue", notHealthy(c.address, err), "")
		return false
	}
	if health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = fmt.Errorf("%s answers and cannot write: its disk is full or fails; its operator sees why with pilotage doctor --data", c.address)
	}
	e.note("queue", err, "%s answers", c.address)
	said := header.Get("date")
	if len(said) == 0 {
		e.note("clock", nil, "not compared: the queue is of an older release")
		return true
	}
	theirs, err := http.ParseTime(said[0])
	skew := (asked.Add(answered.Sub(asked) / 2)).Sub(theirs.Add(time.Second / 2)) // it is told in whole seconds
	if err == nil && skew.Abs() > clockOff {
		err = fmt.Errorf("this machine's clock is %s away from the queue's: run a time service on both", skew.Round(time.Second))
	}
	e.note("clock", err, "%s from the queue's", skew.Round(time.Second))
	return true
}

// lookAtRole makes a call that the role may make and that changes nothing.
func (e *examination) lookAtRole(ctx context.Context, c *clients, access *identity.AccessFile) {
	limited, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	var err error
	switch access.Role {
	case identity.RolePilot:
		e.note("role", nil, "pilot of site %s; on a worker node: pilotage pilot --check", access.Site)
		return
	case identity.RoleFactory:
		_, err = c.sites.GetDemand(limited, &pb.GetDemandRequest{Site: string(access.Site)})
	default:
		_, err = c.sites.ListSites(limited, &pb.ListSitesRequest{})
	}
	e.note("role", err, "the queue takes it as %s", access.Role)
}

func (e *examination) lookAtQueue(ctx context.Context, folder, backups string) {
	database := filepath.Join(folder, "queue.db")
	info, err := os.Stat(database)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: is this the folder of a queue? If it is, restore a backup: pilotage taskqueue restore", err)
	}
	if err != nil {
		e.note("folder", err, "")
		return
	}
	e.note("folder", nil, "%s", folder)
	e.note("secrets", secretModes(folder), "no others can read them")
	free, err := exec.FreeDisk(folder)
	if need := max(roomLeft, task.Bytes(info.Size())); err == nil && free < need {
		err = fmt.Errorf("only %s are free: the queue stops taking work on a full disk, and a new release may need %s: make room or move the queue (docs/operations.md)", free, need)
	}
	e.note("disk", err, "%s free, the database has %s", free, task.Bytes(info.Size()))
	e.lookAtAuthority(folder)
	e.lookAtDatabase(ctx, folder, info)
	e.lookAtBackups(backups)
}

// lookAtAuthority reads of the VO's authority and of a rotation what all are told.
func (e *examination) lookAtAuthority(folder string) {
	text, err := os.ReadFile(filepath.Join(folder, "ca", "ca.pem"))
	var known []*x509.Certificate
	if err == nil {
		known, err = identity.ParseAuthorities(text)
	}
	if err != nil {
		e.note("authority", err, "")
		return
	}
	signs, rotation := known[0], ""
	if len(known) > 1 {
		other := known[1]
		if rotation = "; step 1 of its rotation was taken on "; other.NotBefore.Before(signs.NotBefore) {
			rotation, other = "; step 2 of its rotation was taken: the one before counts, too; it began on ", signs
		}
		rotation += other.NotBefore.UTC().Format(time.DateOnly)
	}
	if left := time.Until(signs.NotAfter); left < authoritySoon {
		err = fmt.Errorf("it ends on %s, and with it every access and pilot%s: pilotage taskqueue rotate-authority (docs/access.md)", signs.NotAfter.UTC().Format(time.DateOnly), rotation)
	}
	e.note("authority", err, "valid until %s%s", signs.NotAfter.UTC().Format(time.DateOnly), rotation)
}

// secretModes names what others than the owner can read.
func secretModes(folder string) error {
	var open []string
	for _, pattern := range []string{"*.db*", "access/*"} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
				open = append(open, path)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("others can read %s, and with it pass as the queue or a user: chmod 600 %s", open[0], strings.Join(open, " "))
	}
	return nil
}

// lookAtDatabase reads all of it, where no queue runs on it; what opens it as another
// user would leave files that the queue cannot write.
func (e *examination) lookAtDatabase(ctx context.Context, folder string, info fs.FileInfo) {
	var owner unix.Stat_t
	if err := unix.Stat(filepath.Join(folder, info.Name()), &owner); err == nil && int(owner.Uid) != os.Geteuid() {
		e.note("database", fmt.Errorf("it belongs to user %d: run this as that user (sudo -u '#%d')", owner.Uid, owner.Uid), "")
		return
	}
	blocks, err := server.Verify(ctx, folder)
	if !errors.Is(err, server.ErrInUse) {
		e.note("database", err, "%s as written; no queue runs on it", task.Counted(blocks, "block"))
		return
	}
	e.note("database", nil, "a queue runs on it and compares what it reads; a backup reads all of it")
	var run struct{ PID int }
	var limit unix.Rlimit
	content, err := os.ReadFile(filepath.Join(folder, "run.json"))
	if err == nil {
		err = json.Unmarshal(content, &run)
	}
	if err == nil {
		err = unix.Prlimit(run.PID, unix.RLIMIT_NOFILE, nil, &limit)
	}
	if err == nil && limit.Cur < manyDescriptors {
		err = fmt.Errorf("the queue may open %d files, and gives three quarters of them to connections: set LimitNOFILE=65536 (deploy/systemd/pilotage.service) or ulimit -n before it starts", limit.Cur)
	}
	e.note("descriptors", err, "the queue may open %d", limit.Cur)
}

// lookAtBackups finds the newest database in a folder of backups.
func (e *examination) lookAtBackups(backups string) {
	if backups == "" {
		e.note("backups", nil, "not looked at: give --backups FOLDER")
		return
	}
	var newest time.Time
	paths, err := filepath.Glob(filepath.Join(backups, "*", "queue.db"))
	for _, path := range append(paths, filepath.Join(backups, "queue.db")) {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	age := time.Since(newest)
	switch {
	case err != nil:
	case newest.IsZero():
		err = fmt.Errorf("%s has none: pilotage taskqueue backup %s", backups, filepath.Join(backups, time.Now().UTC().Format(time.DateOnly)))
	case age > backupOld:
		err = fmt.Errorf("the newest is %s old: is the timer that makes them on? pilotage taskqueue backup DIR makes one now", age.Round(time.Hour))
	}
	e.note("backups", err, "the newest is %s old", age.Round(time.Minute))
}

// printFindings prints one table, and counts what failed.
func (o *console) printFindings(findings []agent.Finding) (bad int, err error) {
	err = printList(o, findings, []string{"CHECK", "RESULT", "DETAIL"}, func(finding agent.Finding) []any {
		verdict := "ok"
		if !finding.OK {
			verdict = "FAILED"
		}
		return []any{finding.What, verdict, finding.Detail}
	})
	for _, finding := range findings {
		if !finding.OK {
			bad++
		}
	}
	return bad, err
}

// notHealthy says that a queue does not answer, or that something else does.
func notHealthy(address string, err error) error {
	if fromWebServer(err) {
		return notReached(address, err)
	}
	return fmt.Errorf("%s does not answer: %s: does it run, and do firewalls let you reach this port (docs/ports.md)?", address, explain(err))
}
