import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import pg from 'pg';
import { openPostgresRows } from '../../src/storage/rows/rows.ts';
import { neededWalks } from '../world/needed-walks.ts';
import type { ObjectStore } from '../world/object-store.ts';
import type { Replicas } from '../world/replicas.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { inLanes } from './lanes.ts';
import type { StormHttp } from './storm-http.ts';

interface Site {
  readonly replicas: Replicas;
  readonly store: ObjectStore;
}

/** Keys below the prefix of a site: its id, content, and logs of builds. */
const usualKey = /^site\/(?:id$|blobs\/|logs\/)/;

/** Verifies all content. Returns what the command prints. */
export async function verifySite({ replicas }: Site): Promise<string> {
  const { stdout, stderr } = await sluiceCommand(['verify'], replicas.environment(0));
  return stdout + stderr;
}

/** Removes what nothing refers to, however young it is. */
export async function sweepSite({ replicas }: Site): Promise<void> {
  // Content that did not arrive could otherwise be continued for an hour.
  await query(replicas, 'UPDATE contents SET used_at = 0');
  const env = { ...replicas.environment(0), SLUICE_SWEEP_GRACE: '0s' };
  const swept = await sluiceCommand(['gc'], env);
  if (swept.code !== 0) throw new Error(swept.stdout + swept.stderr);
}

/** Returns the images and layers of live requests that a sweep would not mark, and how many there are in all. */
export async function overlookedNeeds({ replicas }: Site) {
  const rows = await openPostgresRows(replicas.database);
  try {
    const { swept, needed } = await neededWalks(rows, Date.now());
    return { overlooked: needed.filter(digest => !swept.includes(digest)), count: needed.length };
  } finally {
    await rows.end();
  }
}

/** Returns the images that more than one build has made. */
export async function imagesBuiltTwice({ replicas }: Site): Promise<string[]> {
  const found = await query<{ target: string }>(
    replicas,
    'SELECT target FROM builds WHERE succeeded = 1 GROUP BY target HAVING count(*) > 1',
  );
  return found.map(({ target }) => target);
}

/** Returns what is in the bucket and has no row, has a row and is not there, or is unfinished. */
export async function leftoversOf({ replicas, store }: Site): Promise<string[]> {
  const keys = await replicas.objects('');
  const uploads = await store.client.send(
    new ListMultipartUploadsCommand({ Bucket: replicas.bucket }),
  );
  const rows = await query<{ digest: string; state: string }>(
    replicas,
    'SELECT digest, state FROM contents',
  );
  const staged = await query<{ name: string }>(
    replicas,
    `SELECT name FROM repositories r WHERE name LIKE 'builds/staging/%'
       AND EXISTS (SELECT 1 FROM hosted_manifests WHERE repository = r.id)`,
  );
  const states = new Map(rows.map(({ digest, state }) => [digest, state]));
  const stored = new Set(keys.flatMap(digestIn));
  return [
    ...(uploads.Uploads ?? []).map(({ Key }) => `unfinished upload of ${Key}`),
    ...staged.map(({ name }) => `image in ${name}`),
    ...keys.filter(key => !usualKey.test(key)).map(key => `object ${key}`),
    ...[...stored].filter(digest => !states.has(digest)).map(digest => `no row of ${digest}`),
    ...[...states].flatMap(([digest, state]) =>
      stored.has(digest) && state === 'here' ? [] : [`${state}, and no object: ${digest}`],
    ),
  ];
}

/** Deletes all manifests of all repositories, and ends all container requests. */
export async function deleteAll({ replicas }: Site, http: StormHttp): Promise<void> {
  await query(replicas, 'UPDATE requests SET expires_at = 1');
  for (;;) {
    const found = await query<{ repository: string; digest: string }>(
      replicas,
      `SELECT name AS repository, digest FROM hosted_manifests m
         JOIN repositories r ON r.id = m.repository LIMIT 500`,
    );
    if (found.length === 0) return;
    await inLanes(found, ({ repository, digest }) => {
      const path = `/v2/${repository}/manifests/${digest}`;
      return http.expect([202, 404], path, { method: 'DELETE' });
    });
  }
}

/**
 * Returns the repositories that are still there, and the content, without the copies of what builders have read of base
 * images: a size limits those.
 */
export async function contentOf({ replicas }: Site): Promise<string[]> {
  const digestsOf = async (table: string) => {
    const rows = await query<{ digest: string }>(replicas, `SELECT digest FROM ${table}`);
    return rows.map(({ digest }) => digest);
  };
  const repositories = await query<{ name: string }>(replicas, 'SELECT name FROM repositories');
  const keys = await replicas.objects('');
  const stored = new Set([...(await digestsOf('contents')), ...keys.flatMap(digestIn)]);
  const copies = new Set(await digestsOf('cached_blobs'));
  return [
    ...repositories.map(({ name }) => name),
    ...[...stored].filter(digest => !copies.has(digest)),
  ];
}

function digestIn(key: string): string[] {
  const [, algorithm, hex] = /^site\/blobs\/(\w+)\/(\w+)$/.exec(key) ?? [];
  return hex === undefined ? [] : [`${algorithm}:${hex}`];
}

/** Runs one statement in the database of a site. */
export async function query<Row extends object>(
  { database }: Replicas,
  text: string,
): Promise<Row[]> {
  const client = new pg.Client(database);
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
