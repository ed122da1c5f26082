/** The first steps of the schema, all of them released: never change them. */
export const firstMigrations: readonly string[] = [
  `
  CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    token_hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    body TEXT NOT NULL
  );
  CREATE INDEX requests_by_expiry ON requests (expires_at);

  CREATE TABLE usage (
    metric TEXT NOT NULL,
    day TEXT NOT NULL,
    org TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (metric, day, org)
  ) WITHOUT ROWID;

  CREATE TABLE fetched_layers (
    location_hash BLOB PRIMARY KEY,
    body TEXT NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE cached_blobs (
    digest TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX cached_blobs_by_use ON cached_blobs (used_at);
  `,
  `
  CREATE TABLE repositories (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
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
  `,
  `
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
    UNIQUE (build_key, number)
  );
  CREATE INDEX builds_by_target ON builds (target, created_at);
  CREATE INDEX builds_unfinished ON builds (created_at) WHERE finished_at IS NULL;

  UPDATE requests SET body = json_remove(
    json_set(body, '$.fixed', json_object(
      'base', json(json_extract(body, '$.base')),
      'served', json(json_extract(body, '$.served')))),
    '$.base', '$.served');
  `,
  `
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
  `,
  `
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
    UNIQUE (user, name)
  );

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
  `,
  `
  ALTER TABLE builds ADD COLUMN owner TEXT;
  ALTER TABLE builds ADD COLUMN trusted INTEGER;
  CREATE INDEX builds_by_end ON builds (finished_at);

  ALTER TABLE requests ADD COLUMN build_id TEXT
    GENERATED ALWAYS AS (json_extract(body, '$.buildId')) VIRTUAL;
  CREATE INDEX requests_by_build ON requests (build_id) WHERE build_id IS NOT NULL;
  `,
  `
  CREATE TABLE blob_sources (
    digest TEXT NOT NULL REFERENCES cached_blobs (digest) ON DELETE CASCADE,
    registry TEXT NOT NULL,
    PRIMARY KEY (digest, registry)
  ) WITHOUT ROWID;
  `,
  `
  ALTER TABLE builds ADD COLUMN sealed_grant TEXT;
  ALTER TABLE builds ADD COLUMN file TEXT;
  `,
];
