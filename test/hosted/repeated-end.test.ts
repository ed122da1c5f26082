/** An upload whose end failed because the store was away: how long it waits for the repeated request. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import type { HostedBlobs } from '../../src/hosted/blobs.ts';
import type { UploadBody } from '../../src/hosted/uploads/open-uploads.ts';
import type { Quota } from '../../src/hosted/uploads/quota.ts';
import { createUploads } from '../../src/hosted/uploads/uploads.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import type { UploadStore } from '../../src/storage/rows/hosted/hosted-rows.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const bytes = Buffer.alloc(1_000_000, 'upload');
const digest = digestOf(bytes);

function bodyOf(...parts: readonly Buffer[]): UploadBody {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  return {
    chunks: (async function* () {
      yield* parts;
    })(),
    length,
    stop() {},
  };
}

test('it goes on for 30 s, and then frees its place and its bytes', async t => {
  await using directory = await makeTempDir('repeated-end');
  const real = await openContentDirectory(directory.join('content'));
  let isAway = true;
  const ingest: ContentStore['ingest'] = async algorithm => {
    const one = await real.ingest(algorithm);
    const commit = async () => {
      if (isAway) throw new Fault('unavailable', 'away');
      return one.commit();
    };
    return Object.assign(Object.create(one), { commit });
  };
  const uploads = createUploads({
    content: { ...real, ingest },
    store: {} as UploadStore,
    kept: [],
    isCurrent: () => true,
    blobs: { link: async () => {} } as unknown as HostedBlobs,
    quota: { limitsOf: () => ({}), admit: async () => {} } as unknown as Quota,
  });
  const isGone = (id: string) => {
    try {
      uploads.find('team/app', id);
      return false;
    } catch {
      return true;
    }
  };
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const end = async (id: string, body: UploadBody) =>
    uploads.finish('team/app', id, body, undefined, digest).then(
      () => 'kept',
      (error: Fault) => error.message,
    );

  const { id } = await uploads.start('team/app', 'somebody');
  assert.equal(await end(id, bodyOf(bytes)), 'away');
  t.mock.timers.tick(29_000);
  // Each attempt has its own 30 s.
  assert.equal(await end(id, bodyOf()), 'away');
  t.mock.timers.tick(29_000);
  assert.equal(isGone(id), false);
  isAway = false;
  assert.equal(await end(id, bodyOf()), 'kept');
  assertBytes(await real.read(digest), bytes);
  assert.equal(isGone(id), true);

  isAway = true;
  const { id: abandoned } = await uploads.start('team/app', 'somebody');
  assert.equal(await end(abandoned, bodyOf(bytes)), 'away');
  t.mock.timers.tick(29_999);
  assert.equal(isGone(abandoned), false);
  t.mock.timers.tick(1);
  assert.equal(isGone(abandoned), true);
  t.mock.timers.reset();
  await eventually('its bytes are gone', async () =>
    (await readdir(directory.join('content/tmp'))).every(name => name.startsWith('ready-')),
  );
});
