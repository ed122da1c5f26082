/** The schema, step by step. A step that was released is never changed: add another. */
export const migrations: readonly string[] = [
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
];
