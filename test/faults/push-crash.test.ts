import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { digestOf } from '../../src/oci/digest.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { pattern } from './scripted-upstream.ts';

const uploads = 200;
const rounds = 2;
// Uploads in progress at the end of a round; more than the responses in transit.
const amidst = 20;
const patienceMs = 120_000;

/** What was sent, and what of it was acknowledged: repositories by blob digest, routes by manifest digest. */
class Ledger {
  readonly sent = new Map<string, string>();
  readonly blobs = new Set<string>();
  readonly manifests = new Map<string, { repository: string; tag: string }>();

  /** Blobs whose upload has started with an unknown outcome. */
  get open(): number {
    return this.sent.size - this.blobs.size;
  }
}

/** Pushes images one after the other until the server is gone. */
async function pushOn(sluice: Sluice, name: string, worker: number, ledger: Ledger): Promise<void> {
  const path = `crash/${worker % 4}`;
  const repository = new Repository(sluice, path);
  for (let at = 0; ; at += 1) {
    const tag = `${name}-${at}`;
    const bytes = pattern(50_000 + at * 7919, tag);
    const digest = digestOf(bytes);
    const half = Math.floor(bytes.length / 2);
    ledger.sent.set(digest, path);
    try {
      const location = await repository.begin();
      expect(await repository.send('PATCH', location, bytes.subarray(0, half)), 202);
      const end = `${location}?digest=${digest}`;
      expect(await repository.send('PUT', end, bytes.subarray(half)), 201);
      ledger.blobs.add(digest);
      const pushed = expect(await repository.pushManifest(tag, bytes), 201);
      const named = String(pushed.headers['docker-content-digest']);
      ledger.manifests.set(named, { repository: path, tag });
    } catch (error) {
      if (sluice.process.signalCode !== null || isGone(error)) return;
      throw error;
    }
  }
}

function isGone(error: unknown): boolean {
  const { code = '' } = error as NodeJS.ErrnoException;
  return ['ECONNREFUSED', 'ECONNRESET', 'EPIPE'].includes(code);
}

/** The digests in the content store. */
async function kept(data: string): Promise<Set<string>> {
  const found = new Set<string>();
  const base = join(data, 'content/blobs/sha256');
  for (const shard of await readdir(base)) {
    for (const hex of await readdir(join(base, shard))) found.add(`sha256:${hex}`);
  }
  return found;
}

test('after kill -9 during 200 uploads, acknowledged content is complete and no content is partial', async () => {
  await using directory = await makeTempDir('push-crash');
  const data = directory.join('data');
  const ledger = new Ledger();

  for (let round = 0; round < rounds; round += 1) {
    const before = {
      blobs: ledger.blobs.size,
      manifests: ledger.manifests.size,
      open: ledger.open,
    };
    await using sluice = await startSluice({ config: administered, data });
    const pushes = Array.from({ length: uploads }, (_, worker) =>
      pushOn(sluice, `r${round}w${worker}`, worker, ledger),
    );
    // All uploads start together and may be at the same step for a while; none would be halfway then.
    const isAmidst = () =>
      ledger.blobs.size >= before.blobs + uploads &&
      ledger.manifests.size > before.manifests &&
      ledger.open >= before.open + amidst;
    await eventually('some uploads are acknowledged, and others in progress', isAmidst, patienceMs);
    await sluice.kill();
    await Promise.all(pushes);
  }
  assert.ok(ledger.open > 0, 'it was amidst');

  await using sluice = await startSluice({ config: administered, data });
  assert.deepEqual(await readdir(join(data, 'content/tmp')), [], 'no upload is left over');
  for (const [digest, { repository, tag }] of ledger.manifests) {
    const reply = expect(await new Repository(sluice, repository).get(`manifests/${tag}`), 200);
    assert.equal(digestOf(reply.body), digest, tag);
  }
  for (const [digest, path] of ledger.sent) {
    const reply = await new Repository(sluice, path).get(`blobs/${digest}`);
    if (reply.status === 200) assert.equal(digestOf(reply.body), digest);
    else assert.ok(reply.status === 404 && !ledger.blobs.has(digest), `${digest}: ${reply.status}`);
  }
  const verified = await sluiceCommand(['verify', '--data', data]);
  assert.match(verified.stdout, / 0 damaged, 0 missing/);

  // A manifest may exist without its lost acknowledgement; unreferenced content may not.
  const needed = new Set<string>();
  for (let path = 0; path < 4; path += 1) {
    const repository = new Repository(sluice, `crash/${path}`);
    const { tags } = JSON.parse((await repository.get('tags/list')).body.toString());
    for (const tag of tags) {
      const reply = await repository.get(`manifests/${tag}`);
      needed.add(digestOf(reply.body));
      needed.add(JSON.parse(reply.body.toString()).config.digest);
    }
  }
  const sweep = async () => {
    const swept = await sluiceCommand(['gc', '--data', data], { SLUICE_SWEEP_GRACE: '0s' });
    assert.equal(swept.code, 0, swept.stderr);
  };
  await sweep();
  const announced = [...(await kept(data))].filter(digest => !needed.has(digest));
  for (const digest of announced) assert.ok(!ledger.blobs.has(digest), `${digest} stays`);
  // Incomplete content may be continued for an hour.
  const database = new Database(join(data, 'sluice.db'));
  database.exec('UPDATE contents SET used_at = 0');
  database.close();
  await sweep();
  assert.deepEqual(await kept(data), needed);
});
