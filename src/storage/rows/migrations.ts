import { firstMigrations } from './file/first-migrations.ts';

/** The schema, step by step. Never change a released step: add another. */
export const migrations: readonly string[] = [
  ...firstMigrations,
  // Rows hold the sums, because adding them up takes seconds with millions of rows. Each query has an index.
  `
  CREATE TABLE sums (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
  ) WITHOUT ROWID;
  INSERT INTO sums (name, value)
    SELECT 'hosted bytes', COALESCE(SUM(size), 0) FROM
      (SELECT digest, size FROM hosted_blobs UNION SELECT digest, size FROM hosted_manifests);
  INSERT INTO sums (name, value) SELECT 'cached bytes', COALESCE(SUM(size), 0) FROM cached_blobs;
  INSERT INTO sums (name, value) SELECT 'users', COUNT(*) FROM users;
  INSERT INTO sums (name, value) SELECT 'access tokens', COUNT(*) FROM access_tokens;
  INSERT INTO sums (name, value) SELECT 'workspaces', COUNT(*) FROM workspaces;
  INSERT INTO sums (name, value) SELECT 'credentials', COUNT(*) FROM credentials;

  ALTER TABLE repositories ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
  UPDATE repositories SET bytes =
    (SELECT COALESCE(SUM(size), 0) FROM hosted_blobs WHERE repository = repositories.id) +
    (SELECT COALESCE(SUM(size), 0) FROM hosted_manifests WHERE repository = repositories.id);

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
  CREATE TRIGGER user_added AFTER INSERT ON users BEGIN
    UPDATE sums SET value = value + 1 WHERE name = 'users';
  END;
  CREATE TRIGGER user_removed AFTER DELETE ON users BEGIN
    UPDATE sums SET value = value - 1 WHERE name = 'users';
  END;
  CREATE TRIGGER access_token_added AFTER INSERT ON access_tokens BEGIN
    UPDATE sums SET value = value + 1 WHERE name = 'access tokens';
  END;
  CREATE TRIGGER access_token_removed AFTER DELETE ON access_tokens BEGIN
    UPDATE sums SET value = value - 1 WHERE name = 'access tokens';
  END;
  CREATE TRIGGER workspace_added AFTER INSERT ON workspaces BEGIN
    UPDATE sums SET value = value + 1 WHERE name = 'workspaces';
  END;
  CREATE TRIGGER workspace_removed AFTER DELETE ON workspaces BEGIN
    UPDATE sums SET value = value - 1 WHERE name = 'workspaces';
  END;
  CREATE TRIGGER credentials_added AFTER INSERT ON credentials BEGIN
    UPDATE sums SET value = value + 1 WHERE name = 'credentials';
  END;
  CREATE TRIGGER credentials_removed AFTER DELETE ON credentials BEGIN
    UPDATE sums SET value = value - 1 WHERE name = 'credentials';
  END;

  CREATE INDEX access_tokens_by_end ON access_tokens (expires_at) WHERE expires_at IS NOT NULL;
  CREATE INDEX platform_pairings_by_age ON platform_pairings (created_at);
  CREATE INDEX usage_by_org ON usage (metric, org, day, count);

  ALTER TABLE fetched_layers ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX fetched_layers_by_use ON fetched_layers (used_at);

  CREATE TABLE clock_reading (
    id INTEGER PRIMARY KEY,
    wall INTEGER NOT NULL,
    uptime INTEGER NOT NULL,
    steady_from INTEGER NOT NULL
  );

  ALTER TABLE builds ADD COLUMN kept_until INTEGER;
  UPDATE builds SET kept_until = MAX(finished_at + 2592000000,
    COALESCE((SELECT MAX(expires_at) FROM requests WHERE build_id = builds.id), 0))
    WHERE finished_at IS NOT NULL;
  DROP INDEX requests_by_build;
  DROP INDEX builds_by_end;
  DROP INDEX builds_by_target;
  DROP INDEX builds_unfinished;
  CREATE INDEX builds_by_target ON builds (target);
  CREATE INDEX builds_unfinished ON builds (finished_at) WHERE finished_at IS NULL;
  CREATE INDEX builds_by_keep ON builds (kept_until) WHERE finished_at IS NOT NULL;
  `,
  // Content that callers without an access token keep here, by network; the network '' has the sums of all.
  `
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

  ALTER TABLE requests ADD COLUMN network TEXT;

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
  `,
  `
  CREATE TABLE data_directory (id TEXT NOT NULL, proof INTEGER NOT NULL DEFAULT 0);
  `,
  `
  CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    client TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL
  );
  `,
  `
  ALTER TABLE cached_blobs ADD COLUMN is_shared INTEGER NOT NULL DEFAULT 0;
  `,
  // When several processes enter a build of the same image, one succeeds.
  `
  UPDATE builds SET finished_at = created_at, succeeded = 0, kept_until = created_at + 2592000000,
    reason = 'A newer build makes this image'
    WHERE finished_at IS NULL AND EXISTS (SELECT 1 FROM builds AS newer
      WHERE newer.target = builds.target AND newer.finished_at IS NULL AND newer.rowid > builds.rowid);
  CREATE UNIQUE INDEX builds_unfinished_by_target ON builds (target) WHERE finished_at IS NULL;
  `,
  `
  ALTER TABLE builds ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;
  `,
  // A plan has the kind of its recipe.
  `
  UPDATE builds SET plan = json_set(plan, '$.origin.recipe', CASE
      WHEN json_extract(plan, '$.origin.lockStage') IS NOT NULL THEN 'conda'
      WHEN json_extract(plan, '$.origin.followsLinks') IS NOT NULL THEN 'definition'
      ELSE 'dockerfile' END)
    WHERE finished_at IS NULL AND json_extract(plan, '$.origin.kind') = 'recipe';
  `,
  // Which content is here. The content of an earlier version gets its rows from the sweeps.
  `
  CREATE TABLE contents (
    digest TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    state TEXT NOT NULL
  ) WITHOUT ROWID;
  `,
  // Layers of Conda packages. Long columns come last: rows are read without them.
  `
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
  `,
  // The packages of an image, from which documents about it are written. Rows are read without it.
  `
  ALTER TABLE builds ADD COLUMN solution BLOB;
  `,
  // Logins of browsers.
  `
  CREATE TABLE sessions (
    hash BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX sessions_by_owner ON sessions (owner, created_at);
  CREATE INDEX sessions_by_use ON sessions (used_at);
  `,
  // Lists of builds, the newest first: of all callers or of one, in all states or in one.
  `
  CREATE INDEX builds_by_result ON builds (succeeded);
  CREATE INDEX builds_by_owner ON builds (owner);
  CREATE INDEX builds_by_owner_and_result ON builds (owner, succeeded);
  `,
  // Figures for operators. The number of sessions is kept as a sum, because it has a limit.
  `
  CREATE TABLE day_counts (
    kind TEXT NOT NULL,
    day TEXT NOT NULL,
    name TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (kind, day, name)
  ) WITHOUT ROWID;

  CREATE TABLE queue_hours (
    at INTEGER PRIMARY KEY,
    samples INTEGER NOT NULL,
    queued INTEGER NOT NULL,
    most_running INTEGER NOT NULL,
    most_waiting INTEGER NOT NULL
  );

  CREATE INDEX package_layers_by_digest ON package_layers (digest);

  INSERT INTO sums (name, value) SELECT 'sessions', COUNT(*) FROM sessions;
  CREATE TRIGGER session_added AFTER INSERT ON sessions BEGIN
    UPDATE sums SET value = value + 1 WHERE name = 'sessions';
  END;
  CREATE TRIGGER session_removed AFTER DELETE ON sessions BEGIN
    UPDATE sums SET value = value - 1 WHERE name = 'sessions';
  END;
  `,
  // Pulls by what is pulled.
  `
  CREATE TABLE pulls (
    subject TEXT NOT NULL,
    day TEXT NOT NULL,
    count INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (subject, day)
  ) WITHOUT ROWID;
  CREATE INDEX pulls_by_day ON pulls (day);
  `,
  // Uploads that clients can continue after the end of the server.
  `
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
  `,
  // Layers of base images that were verified.
  `
  CREATE TABLE verified_layers (
    digest TEXT NOT NULL,
    registry TEXT NOT NULL,
    diff_id TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (digest, registry)
  ) WITHOUT ROWID;
  CREATE INDEX verified_layers_by_use ON verified_layers (used_at);
  `,
  // What an access token may do, as JSON, and who created it for its user. Pulls and builds have audit logs of their own, so
  // that many pulls remove no entry about administration.
  `
  ALTER TABLE access_tokens ADD COLUMN rights TEXT;
  ALTER TABLE access_tokens ADD COLUMN creator TEXT;
  CREATE TABLE audit_pulls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    client TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL
  );
  CREATE TABLE audit_builds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    client TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL
  );
  `,
];
