import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStagedImages } from '../../src/builds/solve/staged-images.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import type { BuildRow } from '../../src/storage/rows/images/build-rows.ts';

const running = '0a_1';
const ended = Array.from({ length: 250 }, (_, at) => `0b_${1000 + at}`);
const unknown = '0c_3';

function stagedImages(removeAll: (repository: string) => Promise<void>) {
  const names = [
    ...['builds', 'builds/a'],
    ...[running, ...ended, unknown, 'of-a-user'].map(id => `builds/staging/${id}`),
    ...['builds/users', 'team/0d_4'],
  ].sort();
  return createStagedImages({
    ownHost: 'sluice.test',
    hosted: { removeAll },
    repositories: async (after, limit) => names.filter(name => name > after).slice(0, limit),
    store: {
      find: async id =>
        id === unknown ? undefined : ({ finishedAt: id === running ? null : 1 } as BuildRow),
    },
    log: createLogger('silent'),
  });
}

test('images that ended builds have left are removed, and no others', async () => {
  const removed: string[] = [];
  await stagedImages(async name => void removed.push(name)).removeStray();
  assert.deepEqual(
    removed,
    [...ended, unknown].map(id => `builds/staging/${id}`),
  );
});

test('an image that cannot be removed now does not fail its build', async () => {
  await stagedImages(async () => {
    throw new Error('no database');
  }).drop(running);
});
