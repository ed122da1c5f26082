import { describeTables, moveRows } from '../../src/storage/moving/move-rows.ts';
import { openPostgresSide } from '../../src/storage/moving/postgres-side.ts';
import { openSqliteSide } from '../../src/storage/moving/sqlite-side.ts';
import type { Database } from '../../src/storage/rows/database.ts';

/** How many rows of each kind a database is filled with. */
export interface RowCounts {
  /** Container requests that ended long ago, entered first. */
  readonly endedRequests?: number;
  readonly liveRequests?: number;
  /** Blobs of one hosted repository, each part of a manifest, ten to a manifest. */
  readonly hostedBlobs?: number;
  /** Blobs of another repository that no manifest refers to. */
  readonly orphans?: number;
  readonly cachedBlobs?: number;
  /** Content that nothing refers to, used long ago; beside it each hosted blob has a row. */
  readonly contents?: number;
  /** Layers of Conda packages, used long ago. */
  readonly packageLayers?: number;
  /** Builds that were over long ago. */
  readonly endedBuilds?: number;
  /** Hosted repositories with one blob each. */
  readonly repositories?: number;
  /** Tags and manifests of one hosted repository, each tag with its own. */
  readonly tags?: number;
  /** Pulls of a thousand containers and of all hosted repositories and tags above, by day, up to today. */
  readonly pulls?: number;
  /** Pulls and builds of organisations by day, in the 400 days up to today. */
  readonly usage?: number;
  /** Pulls of images by day, in the 400 days up to today. */
  readonly dayCounts?: number;
}

const dayMs = 24 * 3_600_000;

/** Moves the rows of a SQLite file to an empty PostgreSQL database, as `sluice migrate` does. Leaves an empty place behind. */
export async function moveToPostgres(path: string, url: string): Promise<void> {
  const tables = await describeTables();
  const from = await openSqliteSide(path);
  const to = await openPostgresSide(url, tables, false);
  await moveRows(from, to, tables);
  await Promise.all([from.close(), to.close()]);
}

/**
 * Fills a database as years of use would: SQLite makes the rows itself, about half a million in a second.
 * @param now ms since the epoch
 */
export function fillDatabase(database: Database, counts: RowCounts, now = Date.now()): void {
  const { endedRequests = 0, liveRequests = 0, hostedBlobs = 0, orphans = 0 } = counts;
  const { cachedBlobs = 0, endedBuilds = 0, contents = 0, packageLayers = 0 } = counts;
  const { repositories = 0, tags = 0 } = counts;
  const sql = (text: string, values: object) => database.prepare(text).run(values);
  const numbers =
    'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @count)';
  const requests = `${numbers} INSERT INTO requests (token_hash, created_at, expires_at, needs, body)
    SELECT randomblob(32), @at + i - @count, @at + @life + i - @count, CAST(printf('%016x', i % 1000) AS BLOB),
      '{"image":{"registry":"docker.io","repository":"library/alpine"},"change":{"layers":[{"gzipDigest":"sha256:' ||
      printf('%064x', i % 1000) || '"}]}}' FROM n`;
  const repository = (name: string) =>
    Number(
      database.prepare('INSERT INTO repositories (name) VALUES (?) RETURNING id').pluck().get(name),
    );
  const blobs = `${numbers} INSERT INTO hosted_blobs (repository, digest, size, linked_at)
    SELECT @repository, 'sha256:' || printf('%064x', i + @first), 1000, @at FROM n`;

  database.transaction(() => {
    if (endedRequests > 0) {
      sql(requests, { count: endedRequests, at: now - 40 * dayMs, life: dayMs });
    }
    if (liveRequests > 0) sql(requests, { count: liveRequests, at: now, life: dayMs });
    if (hostedBlobs > 0) {
      const id = repository('many/kept');
      sql(blobs, { count: hostedBlobs, repository: id, first: 0, at: now - 9 * dayMs });
      sql(
        `${numbers} INSERT INTO hosted_parts (repository, manifest, part)
         SELECT @id, 'sha256:' || printf('e%063x', i / 10), 'sha256:' || printf('%064x', i) FROM n`,
        { count: hostedBlobs, id },
      );
      sql(
        `${numbers} INSERT INTO hosted_manifests (repository, digest, media_type, size)
         SELECT @id, 'sha256:' || printf('e%063x', i - 1), 'application/vnd.oci.image.manifest.v1+json', 500 FROM n`,
        { count: Math.ceil(hostedBlobs / 10), id },
      );
    }
    if (orphans > 0) {
      const id = repository('many/orphans');
      sql(blobs, { count: orphans, repository: id, first: hostedBlobs, at: now - 9 * dayMs });
    }
    if (cachedBlobs > 0) {
      sql(
        `${numbers} INSERT INTO cached_blobs (digest, size, used_at)
         SELECT 'sha256:' || printf('c%063x', i), 1000, @at + i FROM n`,
        { count: cachedBlobs, at: now - 9 * dayMs },
      );
    }
    if (contents > 0) {
      sql(
        `${numbers} INSERT INTO contents (digest, size, used_at, state)
         SELECT 'sha256:' || printf('f%063x', i), 1000, @at, 'here' FROM n
         UNION ALL SELECT digest, size, linked_at, 'here' FROM hosted_blobs`,
        { count: contents, at: now - 9 * dayMs },
      );
    }
    if (packageLayers > 0) {
      sql(
        `${numbers} INSERT INTO package_layers (key, digest, size, tar_digest, used_at, facts, path_hashes, paths)
         SELECT randomblob(32), 'sha256:' || lower(hex(randomblob(32))), 1000, 'sha256:' || printf('%064x', i), @at,
           '{"index":"' || hex(randomblob(1000)) || '"}', zeroblob(1000), zeroblob(3000) FROM n`,
        { count: packageLayers, at: now - 40 * dayMs },
      );
    }
    if (endedBuilds > 0) {
      sql(
        `${numbers} INSERT INTO builds (id, build_key, number, target, plan, owner, trusted, created_at, started_at, finished_at, kept_until, succeeded)
         SELECT printf('%016x_%d', i, i), printf('%016x', i), i, 'example.com/builds:' || i, '{}', '192.0.2.1', 0, @at, @at, @at, @at, 0 FROM n`,
        { count: endedBuilds, at: now - 40 * dayMs },
      );
    }
    if (repositories > 0) {
      sql(
        `${numbers} INSERT INTO repositories (name) SELECT 'wide/r' || printf('%08d', i) FROM n`,
        { count: repositories },
      );
      sql(
        `INSERT INTO hosted_blobs (repository, digest, size, linked_at)
         SELECT id, 'sha256:' || printf('b%063x', id), 1000, @at FROM repositories WHERE name LIKE 'wide/%'`,
        { at: now - 9 * dayMs },
      );
    }
    if (tags > 0) {
      const values = { count: tags, id: repository('many/tags') };
      sql(
        `${numbers} INSERT INTO hosted_manifests (repository, digest, media_type, size)
         SELECT @id, 'sha256:' || printf('a%063x', i), 'application/vnd.oci.image.manifest.v1+json', 500 FROM n`,
        values,
      );
      sql(
        `${numbers} INSERT INTO hosted_tags (repository, name, digest)
         SELECT @id, 't' || printf('%08d', i), 'sha256:' || printf('a%063x', i) FROM n`,
        values,
      );
    }
    fillFigures(sql, numbers, counts, now);
  })();
}

/** Rows by day, which end today. */
function fillFigures(
  sql: (text: string, values: object) => unknown,
  numbers: string,
  { pulls = 0, usage = 0, dayCounts = 0, repositories = 0, tags = 0 }: RowCounts,
  now: number,
): void {
  const today = new Date(now).toISOString().slice(0, 10);
  const dayOf = (number: string) => `date(@today, '-' || (${number}) || ' days')`;
  if (pulls > 0) {
    const subjects = `CASE i % 3 WHEN 0 THEN 'container ' || printf('%064x', i / 3 % 1000)
      WHEN 1 THEN 'repository wide/r' || printf('%08d', i / 3 % MAX(@repositories, 1) + 1)
      ELSE 'reference many/tags:t' || printf('%08d', i / 3 % MAX(@tags, 1) + 1) END`;
    // A thousand rows a day at least, so that a part of them is older than what is kept.
    sql(
      `${numbers} INSERT OR IGNORE INTO pulls (subject, day, count, last_at)
       SELECT ${subjects}, ${dayOf('i / 3000 % 500')}, 1 + i % 7, @now - i / 3000 % 500 * ${dayMs} FROM n`,
      { count: pulls, repositories, tags, today, now },
    );
  }
  if (usage > 0) {
    sql(
      `${numbers} INSERT INTO usage (metric, arch, day, org, count)
       SELECT CASE i % 2 WHEN 0 THEN 'pulls' ELSE 'builds' END, '', ${dayOf('i / 2 % 400')}, 'org' || (i / 800) || '.example', i % 9 FROM n`,
      { count: usage, today },
    );
  }
  if (dayCounts > 0) {
    sql(
      `${numbers} INSERT INTO day_counts (kind, day, labels, count)
       SELECT 'pulled images', ${dayOf('i % 400')}, '{"image":"registry.example/team/app' || (i / 400) || '"}', i % 9 FROM n`,
      { count: dayCounts, today },
    );
  }
}
