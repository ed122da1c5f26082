/** Marks the files of Sluice: `Slui` in ASCII. Files of development versions before the first release have no mark. */
export const applicationId = 0x536c7569;

const auditColumns = `
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    client TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL
  `;

/** Returns the triggers that keep the number of rows as a sum. */
const countRows = (table: string, trigger: string, sum: string) => `
  CREATE TRIGGER ${trigger}_added AFTER INSERT ON ${table} BEGIN
    UPDATE sums SET value = value + 1 WHERE name = '${sum}';
  END;
  CREATE TRIGGER ${trigger}_removed AFTER DELETE ON ${table} BEGIN
    UPDATE sums SET value = value - 1 WHERE name = '${sum}';
  END;`;

const firstSchema = `
  PRAGMA application_id = ${applicationId};

  -- Container requests, by the hash of their token; kept_until is the end of one that was extended beyond its run. Those with the same
  -- needs need the same content.
  CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    token_hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    needs BLOB NOT NULL,
    body TEXT NOT NULL,
    network TEXT,
    run BLOB,
    kept_until INTEGER
  );
  CREATE INDEX requests_by_expiry ON requests (expires_at);
  -- The last to end come first: a sweep does not pass those that ended before.
  CREATE INDEX requests_by_needs ON requests (needs, expires_at DESC) WHERE revoked_at IS NULL;
  CREATE INDEX requests_by_run ON requests (run, id) WHERE run IS NOT NULL;

  -- Runs at workflow platforms that the names of requests end with; due_at is when the platform is asked, NULL when the run ended.
  CREATE TABLE runs (
    run BLOB PRIMARY KEY,
    platform TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    due_at INTEGER,
    ends_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX runs_due ON runs (platform, due_at) WHERE due_at IS NOT NULL;
  CREATE INDEX runs_by_end ON runs (ends_at);

  CREATE TABLE usage (
    metric TEXT NOT NULL,
    arch TEXT NOT NULL,
    day TEXT NOT NULL,
    org TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (metric, arch, day, org)
  ) WITHOUT ROWID;
  CREATE INDEX usage_by_org ON usage (metric, arch, org, day, count);

  CREATE TABLE fetched_layers (
    location_hash BLOB PRIMARY KEY,
    body TEXT NOT NULL,
    used_at INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE INDEX fetched_layers_by_use ON fetched_layers (used_at);

  CREATE TABLE cached_blobs (
    digest TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    is_shared INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE INDEX cached_blobs_by_use ON cached_blobs (used_at);

  -- Hosted repositories.
  CREATE TABLE repositories (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    bytes INTEGER NOT NULL DEFAULT 0
  );

  CREATE TABLE hosted_blobs (
    repository INTEGER NOT NULL REFERENCES repositories (id),
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    linked_at INTEGER NOT NULL,
    PRIMARY KEY (repository, digest)
  ) WITHOUT ROWID;
  CREATE INDEX hosted_blobs_by_digest ON hosted_blobs (digest);

  CREATE TABLE hosted_manifests (
    repository INTEGER NOT NULL REFERENCES repositories (id),
    digest TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    subject TEXT,
    artifact_type TEXT,
    annotations TEXT,
    PRIMARY KEY (repository, digest)
  ) WITHOUT ROWID;
  CREATE INDEX hosted_manifests_by_digest ON hosted_manifests (digest);
  CREATE INDEX hosted_manifests_by_subject ON hosted_manifests (repository, subject) WHERE subject IS NOT NULL;

  CREATE TABLE hosted_parts (
    repository INTEGER NOT NULL,
    manifest TEXT NOT NULL,
    part TEXT NOT NULL,
    PRIMARY KEY (repository, manifest, part)
  ) WITHOUT ROWID;
  CREATE INDEX hosted_parts_by_part ON hosted_parts (repository, part);

  CREATE TABLE hosted_tags (
    repository INTEGER NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (repository, name)
  ) WITHOUT ROWID;
  CREATE INDEX hosted_tags_by_manifest ON hosted_tags (repository, digest);

  CREATE TABLE builds (
    id TEXT PRIMARY KEY,
    build_key TEXT NOT NULL,
    number INTEGER NOT NULL,
    target TEXT NOT NULL,
    plan TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    succeeded INTEGER,
    digest TEXT,
    media_type TEXT,
    reason TEXT,
    lock_file TEXT,
    owner TEXT,
    trusted INTEGER,
    sealed_grant TEXT,
    file TEXT,
    kept_until INTEGER,
    starts INTEGER NOT NULL DEFAULT 0,
    solution BLOB,
    UNIQUE (build_key, number)
  );
  CREATE INDEX builds_by_target ON builds (target);
  CREATE INDEX builds_unfinished ON builds (finished_at) WHERE finished_at IS NULL;
  CREATE INDEX builds_by_keep ON builds (kept_until) WHERE finished_at IS NOT NULL;
  CREATE UNIQUE INDEX builds_unfinished_by_target ON builds (target) WHERE finished_at IS NULL;
  CREATE INDEX builds_by_result ON builds (succeeded);
  CREATE INDEX builds_by_owner ON builds (owner);
  CREATE INDEX builds_by_owner_and_result ON builds (owner, succeeded);

  -- Other platforms, and the built-in one.
  CREATE TABLE platform_token_pairs (
    grant_hash BLOB PRIMARY KEY,
    sealed TEXT NOT NULL,
    renewed_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX platform_token_pairs_by_age ON platform_token_pairs (renewed_at);

  CREATE TABLE platform_pairings (
    id TEXT PRIMARY KEY,
    service TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    public_key TEXT NOT NULL,
    sealed_private_key TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX platform_pairings_by_endpoint ON platform_pairings (endpoint, service, created_at);
  CREATE INDEX platform_pairings_by_age ON platform_pairings (created_at);

  CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    email TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
  );

  CREATE TABLE access_tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    token_hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_day TEXT,
    rights TEXT,
    creator TEXT,
    UNIQUE (user, name)
  );
  CREATE INDEX access_tokens_by_end ON access_tokens (expires_at) WHERE expires_at IS NOT NULL;

  CREATE TABLE workspaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    created_at INTEGER NOT NULL
  );

  CREATE TABLE workspace_members (
    workspace INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    user INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (workspace, user)
  ) WITHOUT ROWID;
  CREATE INDEX workspace_members_by_user ON workspace_members (user);

  CREATE TABLE credentials (
    id TEXT PRIMARY KEY,
    user INTEGER REFERENCES users (id) ON DELETE CASCADE,
    workspace INTEGER REFERENCES workspaces (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    description TEXT,
    provider TEXT NOT NULL,
    shown TEXT NOT NULL,
    sealed TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_day TEXT,
    UNIQUE (user, name),
    UNIQUE (workspace, name),
    CHECK ((user IS NULL) <> (workspace IS NULL))
  );

  CREATE TABLE blob_sources (
    digest TEXT NOT NULL REFERENCES cached_blobs (digest) ON DELETE CASCADE,
    registry TEXT NOT NULL,
    PRIMARY KEY (digest, registry)
  ) WITHOUT ROWID;

  -- Sums, which triggers keep: adding them up takes seconds with millions of rows.
  CREATE TABLE sums (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
  ) WITHOUT ROWID;
  INSERT INTO sums (name, value) VALUES ('hosted bytes', 0), ('cached bytes', 0), ('users', 0),
    ('access tokens', 0), ('workspaces', 0), ('credentials', 0), ('sessions', 0);

  CREATE TABLE clock_reading (
    id INTEGER PRIMARY KEY,
    wall INTEGER NOT NULL,
    uptime INTEGER NOT NULL,
    steady_from INTEGER NOT NULL
  );

  -- Content that callers without an access token keep here, by network; the network '' has the sums of all.
  CREATE TABLE anonymous_use (
    network TEXT PRIMARY KEY,
    requests INTEGER NOT NULL,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE anonymous_content (
    digest TEXT PRIMARY KEY,
    network TEXT NOT NULL,
    size INTEGER NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE data_directory (
    id TEXT NOT NULL,
    proof INTEGER NOT NULL DEFAULT 0
  );

  -- Pulls and builds have audit logs of their own, so that many pulls remove no entry about administration.
  CREATE TABLE audit (${auditColumns});
  CREATE TABLE audit_pulls (${auditColumns});
  CREATE TABLE audit_builds (${auditColumns});

  -- Which content is here.
  CREATE TABLE contents (
    digest TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    state TEXT NOT NULL
  ) WITHOUT ROWID;

  -- Layers of Conda packages. Long columns come last: rows are read without them.
  CREATE TABLE package_layers (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    tar_digest TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    facts TEXT,
    path_hashes BLOB,
    paths BLOB
  );
  CREATE INDEX package_layers_by_use ON package_layers (used_at);
  CREATE INDEX package_layers_by_digest ON package_layers (digest);

  -- Logins of browsers.
  CREATE TABLE sessions (
    hash BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX sessions_by_owner ON sessions (owner, created_at);
  CREATE INDEX sessions_by_use ON sessions (used_at);

  -- Figures for operators.
  CREATE TABLE day_counts (
    kind TEXT NOT NULL,
    day TEXT NOT NULL,
    labels TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (kind, day, labels)
  ) WITHOUT ROWID;

  CREATE TABLE queue_hours (
    at INTEGER PRIMARY KEY,
    samples INTEGER NOT NULL,
    queued INTEGER NOT NULL,
    most_running INTEGER NOT NULL,
    most_waiting INTEGER NOT NULL
  );

  CREATE TABLE pulls (
    subject TEXT NOT NULL,
    day TEXT NOT NULL,
    count INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (subject, day)
  ) WITHOUT ROWID;
  CREATE INDEX pulls_by_day ON pulls (day);

  -- Uploads that clients can continue after the end of the server.
  CREATE TABLE uploads (
    id TEXT PRIMARY KEY,
    repository TEXT NOT NULL,
    owner TEXT NOT NULL,
    draft TEXT NOT NULL,
    algorithm TEXT NOT NULL,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX uploads_by_use ON uploads (used_at);

  -- Layers of base images that were verified.
  CREATE TABLE verified_layers (
    digest TEXT NOT NULL,
    registry TEXT NOT NULL,
    diff_id TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (digest, registry)
  ) WITHOUT ROWID;
  CREATE INDEX verified_layers_by_use ON verified_layers (used_at);

  -- Messages that receivers do not have yet; dead_at is when the last attempt failed, turn is their order.
  CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event TEXT NOT NULL,
    target TEXT NOT NULL,
    sender TEXT NOT NULL,
    turn INTEGER NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL DEFAULT 0,
    dead_at INTEGER,
    error TEXT,
    body TEXT NOT NULL,
    UNIQUE (event, target)
  );
  CREATE INDEX messages_pending ON messages (target, id) WHERE dead_at IS NULL;
  CREATE INDEX messages_by_turn ON messages (target, turn, id) WHERE dead_at IS NULL;
  CREATE INDEX messages_by_sender ON messages (target, sender, id) WHERE dead_at IS NULL;
  CREATE INDEX messages_dead ON messages (dead_at, id) WHERE dead_at IS NOT NULL;
  CREATE INDEX messages_by_age ON messages (created_at, id);

  -- Scans of the images of container requests.
  CREATE TABLE scans (
    id TEXT PRIMARY KEY,
    image TEXT NOT NULL,
    sameness TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    succeeded INTEGER,
    reason TEXT,
    report BLOB,
    details BLOB,
    details_of TEXT,
    log TEXT NOT NULL DEFAULT ''
  ) WITHOUT ROWID;
  CREATE INDEX scans_by_sameness ON scans (sameness, finished_at) WHERE succeeded = 1;
  CREATE INDEX scans_by_age ON scans (created_at);

  CREATE TRIGGER hosted_blob_added AFTER INSERT ON hosted_blobs BEGIN
    UPDATE repositories SET bytes = bytes + NEW.size WHERE id = NEW.repository;
    UPDATE sums SET value = value + NEW.size WHERE name = 'hosted bytes'
      AND NOT EXISTS (SELECT 1 FROM hosted_blobs WHERE digest = NEW.digest AND repository <> NEW.repository)
      AND NOT EXISTS (SELECT 1 FROM hosted_manifests WHERE digest = NEW.digest);
  END;
  CREATE TRIGGER hosted_blob_removed AFTER DELETE ON hosted_blobs BEGIN
    UPDATE repositories SET bytes = bytes - OLD.size WHERE id = OLD.repository;
    UPDATE sums SET value = value - OLD.size WHERE name = 'hosted bytes'
      AND NOT EXISTS (SELECT 1 FROM hosted_blobs WHERE digest = OLD.digest)
      AND NOT EXISTS (SELECT 1 FROM hosted_manifests WHERE digest = OLD.digest);
  END;
  CREATE TRIGGER hosted_manifest_added AFTER INSERT ON hosted_manifests BEGIN
    UPDATE repositories SET bytes = bytes + NEW.size WHERE id = NEW.repository;
    UPDATE sums SET value = value + NEW.size WHERE name = 'hosted bytes'
      AND NOT EXISTS (SELECT 1 FROM hosted_manifests WHERE digest = NEW.digest AND repository <> NEW.repository)
      AND NOT EXISTS (SELECT 1 FROM hosted_blobs WHERE digest = NEW.digest);
  END;
  CREATE TRIGGER hosted_manifest_removed AFTER DELETE ON hosted_manifests BEGIN
    UPDATE repositories SET bytes = bytes - OLD.size WHERE id = OLD.repository;
    UPDATE sums SET value = value - OLD.size WHERE name = 'hosted bytes'
      AND NOT EXISTS (SELECT 1 FROM hosted_manifests WHERE digest = OLD.digest)
      AND NOT EXISTS (SELECT 1 FROM hosted_blobs WHERE digest = OLD.digest);
  END;
  CREATE TRIGGER cached_blob_added AFTER INSERT ON cached_blobs BEGIN
    UPDATE sums SET value = value + NEW.size WHERE name = 'cached bytes';
  END;
  CREATE TRIGGER cached_blob_removed AFTER DELETE ON cached_blobs BEGIN
    UPDATE sums SET value = value - OLD.size WHERE name = 'cached bytes';
  END;
  CREATE TRIGGER anonymous_request_removed AFTER DELETE ON requests WHEN OLD.network IS NOT NULL BEGIN
    UPDATE anonymous_use SET requests = requests - 1, bytes = bytes - octet_length(OLD.body)
      WHERE network IN (OLD.network, '');
    DELETE FROM anonymous_use WHERE network = OLD.network AND requests = 0 AND files = 0;
  END;
  CREATE TRIGGER anonymous_content_added AFTER INSERT ON anonymous_content BEGIN
    INSERT INTO anonymous_use (network, requests, files, bytes)
      VALUES (NEW.network, 0, 1, NEW.size), ('', 0, 1, NEW.size)
      ON CONFLICT (network) DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes;
  END;
  CREATE TRIGGER anonymous_content_removed AFTER DELETE ON anonymous_content BEGIN
    UPDATE anonymous_use SET files = files - 1, bytes = bytes - OLD.size
      WHERE network IN (OLD.network, '');
    DELETE FROM anonymous_use WHERE network = OLD.network AND requests = 0 AND files = 0;
  END;
  ${countRows('users', 'user', 'users')}
  ${countRows('access_tokens', 'access_token', 'access tokens')}
  ${countRows('workspaces', 'workspace', 'workspaces')}
  ${countRows('credentials', 'credentials', 'credentials')}
  ${countRows('sessions', 'session', 'sessions')}
`;

/**
 * The schema in SQLite, step by step: each query has an index. Never change a released step: add another, here and in
 * `../postgres/postgres-schema.ts`.
 */
export const sqliteMigrations: readonly string[] = [firstSchema];
