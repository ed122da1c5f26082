/** Steps of Sluice itself have numbers in the log, as those of BuildKit have. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBuildLogs } from '../../src/builds/logs/build-logs.ts';
import { numberedSteps } from '../../src/builds/logs/run-step.ts';
import { progressLines } from '../../src/builds/solve/conda/make-conda-image.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('the lines of a step are found by its number, in the log and in the record', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const log = logs.begin('key_1');
  const step = numberedSteps(log);
  const result = await step('Solve', async ({ write, progress }) => {
    write('linux/amd64: two packages\nfound in 1 s\n');
    progress('download a-1-0 1.00MB / 2.00MB 0.5s');
    return 7;
  });
  assert.equal(result, 7);
  const failure = new Fault('bad-request', 'no such package\n  at all');
  await assert.rejects(
    step('Fetch', async () => {
      throw failure;
    }),
    failure,
  );
  await assert.rejects(
    step('Push', async () => {
      throw new Error('left');
    }),
    /left/,
  );
  await log.end();
  const text = (await logs.read('key_1'))?.replace(/\d+\.\d+(?= |s)/g, 'N');
  assert.equal(
    text,
    [
      '#1 Solve',
      '#1 N linux/amd64: two packages',
      '#1 N found in 1 s',
      '#1 download a-1-0 1.00MB / 2.00MB Ns',
      '#1 DONE Ns\n',
      '#2 Fetch',
      '#2 ERROR: no such package\n',
      '#3 Push',
      '#3 CANCELED\n\n',
    ].join('\n'),
  );
  const lines = await logs.lines('key_1');
  const { steps = [] } = (await logs.steps('key_1')) ?? {};
  assert.deepEqual(
    lines?.steps.map(({ number, name, state }) => [number, name, state]),
    [
      [1, 'Solve', 'done'],
      [2, 'Fetch', 'failed'],
      [3, 'Push', 'cancelled'],
    ],
  );
  assert.deepEqual(
    steps.map(({ number, name }) => [number, name]),
    lines?.steps.map(({ number, name }) => [number, name]),
  );
  assert.equal(lines?.countOf(1), 5);
});

test('steps that Sluice began do not count when BuildKit makes the image', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const log = logs.begin('key_1');
  await numberedSteps(log)('Solve', async () => {});
  log.write('The link script of fonts requires a builder: BuildKit makes the image.\n');
  log.write('#1 [1/2] FROM busybox\n#1 CACHED\n');
  await log.end();
  assert.deepEqual(
    (await logs.lines('key_1'))?.steps.map(({ name }) => name),
    ['[1/2] FROM busybox'],
  );
});

test('progress counts packages and bytes, and a name from a channel stays within its line', () => {
  const part = { kind: 'download', name: 'a\n#1 DONE 1s', tookMs: 1500, isDone: false } as const;
  const lines = progressLines({
    ...{ done: 1, total: 3, fetched: 4_000_000, fetchedTotal: 12_500_000 },
    parts: [
      { ...part, bytes: 4_190_000, totalBytes: 12_500_000 },
      { ...part, kind: 'layer', name: 'b-1-0', bytes: 500, totalBytes: 500, isDone: true },
    ],
  });
  assert.deepEqual(lines, [
    'download a_#1_DONE_1s 4.19MB / 12.50MB 1.5s',
    'layer b-1-0 500B / 500B 1.5s done',
    '1 / 3 packages 4.00MB / 12.50MB',
  ]);
});
