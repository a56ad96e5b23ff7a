package sqlite

import (
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
)

// wholeTables may be read from end to end: small ones, and those read in the
// order of their rows up to a limit.
var wholeTables = []string{"SCAN ready_counts", "SCAN sites", "SCAN classes", "SCAN grants", "SCAN garbage", "SCAN workflows", "SCAN sqlite_schema", "SCAN runs USING INDEX runs_ready_in_order"}

// sorted queries return or group few rows, or run once for a whole workflow.
var sorted = []string{"FROM leases INDEXED BY leases_by_expiry", "FROM attempts WHERE task = ?", "GROUP BY class"}

// TestPlans asks SQLite how it carries out each statement: none may search a
// table that grows with the queue from end to end, or sort it.
func TestPlans(t *testing.T) {
	store, err := open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	storetest.Touch(t, store)
	reader, err := store.reader()
	if err != nil {
		t.Fatal(err)
	}
	defer store.giveBack(reader)
	if _, err := reader.exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, conn := range []*connection{reader, store.writer.conn} {
		for sql := range conn.statements {
			if verb, _, _ := strings.Cut(sql, " "); verb != "SELECT" && verb != "UPDATE" && verb != "DELETE" {
				continue
			}
			if strings.Contains(sql, "LIMIT ?") || strings.Contains(sql, "FROM runs") && strings.Contains(sql, "state = ?") {
				t.Errorf("%s\nis planned anew every time: see atMost", sql)
			}
			asked++
			checkPlan(t, conn, sql)
		}
	}
	if asked < 40 {
		t.Errorf("only %d statements were looked at", asked)
	}
}

func checkPlan(t *testing.T, conn *connection, sql string) {
	t.Helper()
	values := make([]driver.Value, strings.Count(sql, "?"))
	err := conn.query("EXPLAIN QUERY PLAN "+sql, func(row []driver.Value) error {
		step := row[3].(string)
		for _, allowed := range wholeTables {
			if strings.HasPrefix(step, allowed) {
				return nil
			}
		}
		if strings.HasPrefix(step, "SCAN") {
			t.Errorf("%s\nreads a whole table: %s", sql, step)
		}
		if strings.Contains(step, "TEMP B-TREE") && !containsAny(sql, sorted) {
			t.Errorf("%s\nsorts: %s", sql, step)
		}
		return nil
	}, values...)
	if err != nil {
		t.Fatal(err)
	}
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// TestSettings holds what durability and bounded memory rest on: a killed
// process proves nothing about power loss.
func TestSettings(t *testing.T) {
	store, err := open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	reader, err := store.reader()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reader.close(); err != nil {
			t.Error(err)
		}
	}()
	const full = int64(2)
	for pragma, values := range map[string][2]driver.Value{
		"journal_mode": {"wal", "wal"},
		"synchronous":  {full, full},
		"cache_size":   {int64(-writerCache), int64(-readerCache)},
	} {
		for i, conn := range []*connection{store.writer.conn, reader} {
			err := conn.query("PRAGMA "+pragma, func(row []driver.Value) error {
				if row[0] != values[i] {
					t.Errorf("%s is %v, want %v", pragma, row[0], values[i])
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
