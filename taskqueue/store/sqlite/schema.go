package sqlite

// schemaVersion is written into the meta table. It rises with every change
// that an older program could not live with.
const schemaVersion = 2

// schemaName is the name of the version in the meta table.
const schemaName = "schema"

// The numbers of states in the partial indexes are those of task.State and
// taskqueue.AttemptState; they never change, since they are stored.
const schema = `
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, used INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE workflows (
	number INTEGER PRIMARY KEY, -- order of first Save
	id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, key TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX workflows_by_name ON workflows (name);
CREATE INDEX workflows_by_key ON workflows (key) WHERE key <> '';

CREATE TABLE descriptions ( -- of a number of tasks from seq on
	seq INTEGER PRIMARY KEY, records BLOB NOT NULL, number INTEGER NOT NULL DEFAULT 1);
CREATE TABLE ready_counts (class INTEGER PRIMARY KEY, number INTEGER NOT NULL);

CREATE TABLE files (name TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE announced ( -- at sites, of files without a replica
	name TEXT, site TEXT, PRIMARY KEY (name, site)) WITHOUT ROWID;
CREATE INDEX announced_by_site ON announced (site, name);
CREATE TABLE uses (file TEXT, reader TEXT, PRIMARY KEY (file, reader)) WITHOUT ROWID;
CREATE INDEX uses_by_reader ON uses (reader);
CREATE TABLE classes (id INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE garbage (number INTEGER PRIMARY KEY, site TEXT NOT NULL, url TEXT NOT NULL, UNIQUE (url, site));

CREATE TABLE attempts (
	number INTEGER PRIMARY KEY, -- order of first report
	task TEXT NOT NULL, suffix TEXT NOT NULL, pilot TEXT NOT NULL, state INTEGER NOT NULL,
	record BLOB NOT NULL, UNIQUE (task, suffix));
CREATE INDEX attempts_running ON attempts (pilot) WHERE state = 1;
CREATE TABLE logs (
	number INTEGER PRIMARY KEY, task TEXT NOT NULL, suffix TEXT NOT NULL,
	stdout BLOB, stderr BLOB, UNIQUE (task, suffix));

CREATE TABLE leases (id INTEGER PRIMARY KEY, site TEXT NOT NULL, expires INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX leases_by_site ON leases (site);
CREATE INDEX leases_by_expiry ON leases (expires);
CREATE TABLE revocations (
	site TEXT, lease INTEGER, task TEXT, record BLOB NOT NULL,
	PRIMARY KEY (site, lease, task)) WITHOUT ROWID;

CREATE TABLE sites (name TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE pilots (
	number INTEGER PRIMARY KEY, -- order of first Save
	id TEXT NOT NULL UNIQUE, peer TEXT NOT NULL, site TEXT NOT NULL, state INTEGER NOT NULL,
	record BLOB NOT NULL);
CREATE INDEX pilots_by_site ON pilots (state, site, id);
CREATE INDEX pilots_by_peer ON pilots (peer);
CREATE TABLE grants (id TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
`

// runSchema are the tables of tasks, see run.
const runSchema = `
CREATE TABLE names (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID; -- of tasks
CREATE TABLE runs (
	seq INTEGER PRIMARY KEY, -- of the first task
	number INTEGER NOT NULL, workflow TEXT NOT NULL,
	state INTEGER NOT NULL, priority INTEGER NOT NULL, class INTEGER NOT NULL,
	not_before INTEGER NOT NULL, lease INTEGER NOT NULL, records BLOB NOT NULL);
CREATE TABLE memos (workflow TEXT, memo BLOB, seq INTEGER, -- of DONE tasks
	PRIMARY KEY (workflow, memo, seq)) WITHOUT ROWID;
CREATE INDEX runs_by_state ON runs (workflow, state);
CREATE INDEX runs_ready ON runs (class, priority DESC, seq, not_before, number) WHERE state = 2;
CREATE INDEX runs_backoff ON runs (not_before) WHERE state = 2;
CREATE INDEX runs_leased ON runs (lease) WHERE state = 3;
`

// fromVersion1 takes over tasks that had a row each.
const fromVersion1 = runSchema + `
INSERT INTO names SELECT id, seq FROM tasks ORDER BY id;
INSERT INTO runs SELECT seq, 1, workflow, state, priority, class, not_before, lease, record FROM tasks ORDER BY seq;
INSERT INTO memos SELECT workflow, memo, seq FROM tasks WHERE state = 4 AND memo IS NOT NULL;
DROP TABLE tasks;
ALTER TABLE descriptions RENAME COLUMN record TO records;
ALTER TABLE descriptions ADD COLUMN number INTEGER NOT NULL DEFAULT 1;
`

// additions are tables that databases of earlier releases lack and that an
// older program does not miss, and the removal of what they kept too long.
const additions = `
CREATE TABLE IF NOT EXISTS lease_holders (lease INTEGER PRIMARY KEY, pilot TEXT NOT NULL); -- of leases that a pilot holds
CREATE INDEX IF NOT EXISTS lease_holders_by_pilot ON lease_holders (pilot, lease);
CREATE INDEX IF NOT EXISTS runs_ready_in_order ON runs (priority DESC, seq) WHERE state = 2;
DELETE FROM ready_counts WHERE number = 0;
`
