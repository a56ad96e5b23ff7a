-- Tables of schema 1, in which each task had a row.
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, used INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE workflows (
	number INTEGER PRIMARY KEY, -- order of first Save
	id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, key TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX workflows_by_name ON workflows (name);
CREATE INDEX workflows_by_key ON workflows (key) WHERE key <> '';

CREATE TABLE descriptions (seq INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE tasks (
	seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workflow TEXT NOT NULL,
	state INTEGER NOT NULL, priority INTEGER NOT NULL, class INTEGER NOT NULL,
	not_before INTEGER NOT NULL, lease INTEGER NOT NULL, memo BLOB, record BLOB NOT NULL);
CREATE INDEX tasks_by_state ON tasks (workflow, state);
CREATE INDEX tasks_ready ON tasks (class, priority DESC, seq, not_before) WHERE state = 2;
CREATE INDEX tasks_backoff ON tasks (not_before) WHERE state = 2 AND not_before > 0;
CREATE INDEX tasks_leased ON tasks (lease) WHERE state = 3;
CREATE INDEX tasks_memo ON tasks (workflow, memo) WHERE state = 4 AND memo IS NOT NULL;
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
INSERT INTO meta VALUES ('schema', x'31');
