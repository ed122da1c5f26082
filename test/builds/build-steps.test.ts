/** What is kept of a build beside the text of its log: steps, and the lines of the log. */

import assert from 'node:assert/strict';
import { appendFile, readdir, stat, truncate } from 'node:fs/promises';
import { test } from 'node:test';
import { PlainLog } from '../../src/buildkit/index.ts';
import { createBuildLogs } from '../../src/builds/logs/build-logs.ts';
import { asStep, type BuildStep } from '../../src/builds/logs/build-step.ts';
import { failureText } from '../../src/builds/runs/build-outcomes.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const step: BuildStep = {
  ...{ key: '#1', number: 1, name: '[1/2] FROM busybox', state: 'cached' },
  ...{ startedAt: 1000, endedAt: 1001 },
};

test('steps are kept beside the log, the last state of each, and go with it', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  assert.equal(await logs.steps('key_1'), undefined);
  const writer = logs.begin('key_1');
  writer.restartSteps();
  writer.step({ ...step, state: 'running', endedAt: undefined });
  writer.step(step);
  await assert.rejects(
    asStep(writer, 'Push', async () => {
      throw new Fault('upstream', 'no');
    }),
  );
  writer.layers([{ platform: 'linux/amd64', layers: [{ digest: 'sha256:1', size: 5 }] }]);
  await writer.end();
  const { steps = [], platforms } = (await logs.steps('key_1')) ?? {};
  assert.deepEqual(steps[0], step);
  assert.equal(steps[1]?.state, 'failed');
  assert.equal(steps[1]?.error, 'no');
  assert.equal(platforms?.[0]?.layers[0]?.size, 5);
  await logs.remove('key_1');
  assert.deepEqual(await readdir(directory.path), []);
});

test('the record of a killed server is shorter, and a new attempt replaces it', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const first = logs.begin('key_1');
  first.step(step);
  first.step({ ...step, key: '#2', number: 2 });
  await first.written();
  const path = directory.join('key_1.steps');
  const { size } = await stat(path);
  await truncate(path, size - 20);
  assert.deepEqual((await logs.steps('key_1'))?.steps, [step]);
  const second = logs.begin('key_1');
  second.step({ ...step, key: '#3', number: 3 });
  await second.end();
  assert.equal((await logs.steps('key_1'))?.steps.length, 2, 'the torn line spoils no other');
  const third = logs.begin('key_1');
  third.restartSteps();
  third.step({ ...step, name: 'again' });
  await third.end();
  assert.deepEqual(
    (await logs.steps('key_1'))?.steps.map(({ name }) => name),
    ['again'],
  );
});

test('texts of steps are masked and bounded, and so is their number', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const writer = logs.begin('key_1');
  const name = `\u001b[31mADD https://robot:s3cret@host/ ${'x'.repeat(10_000)}`;
  writer.step({ ...step, name, error: 'https://robot:s3cret@host/' });
  for (let count = 0; count < 2000; count += 1) writer.step({ ...step, key: `k${count}` });
  await writer.end();
  const { steps = [] } = (await logs.steps('key_1')) ?? {};
  assert.equal(steps.length, 500);
  assert.match(steps[0]?.name ?? '', /^ADD https:\/\/\*\*\*@host\/ x{300,}…$/);
  assert.equal(steps[0]?.error, 'https://***@host/');
});

test('lines are read by number, as a whole and by step, while the log grows', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  assert.equal(await logs.lines('key_1'), undefined);
  const path = directory.join('key_1.log');
  await appendFile(
    path,
    '#1 [1/2] FROM busybox\n#1 CACHED\n\n#2 [2/2] RUN make\n#2 0.1 one\n#2 ...\n',
  );
  assert.equal((await logs.lines('key_1'))?.total, 6);
  await appendFile(path, '\n#3 other\n#3 DONE 0.5s\n\n#2 [2/2] RUN make\n#2 ERROR: exit');
  await appendFile(path, ' code: 1\n');
  const lines = await logs.lines('key_1');
  assert.ok(lines);
  assert.equal(lines.total, 12);
  assert.deepEqual(
    lines.steps.map(({ number, name, state, spentMs, line }) => [
      number,
      name,
      state,
      spentMs,
      line,
    ]),
    [
      [1, '[1/2] FROM busybox', 'cached', undefined, 1],
      [2, '[2/2] RUN make', 'failed', undefined, 4],
      [3, 'other', 'done', 500, 8],
    ],
  );
  assert.equal(lines.countOf(2), 5);
  const texts = async (from: number, to: number, of?: number) =>
    (await lines.read(from, to, of)).map(({ number, text }) => `${number} ${text}`);
  assert.deepEqual(await texts(1, 4), ['2 #1 CACHED', '3 ', '4 #2 [2/2] RUN make']);
  assert.deepEqual(await texts(1, 4, 2), ['5 #2 0.1 one', '6 #2 ...', '11 #2 [2/2] RUN make']);
  assert.deepEqual(await texts(10, 99), ['11 #2 [2/2] RUN make', '12 #2 ERROR: exit code: 1']);
  assert.deepEqual(await texts(50, 99), []);
  assert.deepEqual(
    (await lines.search('run MAKE', 9)).map(({ number }) => number),
    [4, 11],
  );
  await appendFile(path, '\nThe server was restarted. The build starts again.\n#1 new\n');
  assert.deepEqual(
    (await logs.lines('key_1'))?.steps.map(({ name }) => name),
    ['new'],
  );
});

test('the output of a failed step is not a new attempt, whatever it is', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const messages = [
    'The builder went away: trying again',
    'The server was restarted. The build starts again.',
    'The link script of a requires a builder: BuildKit makes the image.',
  ];
  const plain = new PlainLog();
  const vertex = {
    ...{ digest: 'v', name: '[2/2] RUN x' },
    startedMs: 0,
    cached: false,
    group: undefined,
    inputs: [],
  };
  const progress = { vertices: [], statuses: [], warnings: [], logs: [] };
  plain.update({
    ...progress,
    vertices: [{ ...vertex, completedMs: undefined, error: undefined }],
  });
  for (const text of [`${messages.join('\n')}\n`, messages[0] ?? ''])
    plain.update({ ...progress, logs: [{ vertex: 'v', stream: 'stdout', text, timeMs: 100 }] });
  plain.update({
    ...progress,
    vertices: [{ ...vertex, completedMs: 200, error: 'exit code: 1' }],
  });
  const log = plain.end(300);
  const reason = ["'RUN x' ended with exit code 1. Its last lines:", ...messages].join('\n');
  const path = directory.join('key_1.log');
  await appendFile(path, log + failureText(reason) + failureText(messages[0] ?? ''));
  const stepsOf = async () => (await logs.lines('key_1'))?.steps.map(({ name }) => name);
  assert.deepEqual(await stepsOf(), ['[2/2] RUN x']);
  for (const message of messages) {
    await appendFile(path, `\n${message}\n#1 ${message}\n`);
    assert.deepEqual(await stepsOf(), [message]);
  }
});

test('a line of 5 MB is cut, and a log of 100,000 lines never blocks the event loop', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const long = 'x'.repeat(5_000_000);
  const many = Array.from({ length: 100_000 }, (_, at) => `#1 0.1 line ${at} ${'y'.repeat(40)}\n`);
  await appendFile(directory.join('key_1.log'), `${long}\n${many.join('')}`);
  const blocked = await longestBlock(async () => {
    const lines = await logs.lines('key_1');
    const [first] = (await lines?.read(0, 1)) ?? [];
    assert.equal(first?.isCut, true);
    assert.equal(first?.text.length, 4096);
    const [middle] = (await lines?.read(50_000, 50_001)) ?? [];
    assert.match(middle?.text ?? '', /line 49999 /);
    assert.equal((await lines?.search('line 99999', 5))?.[0]?.number, 100_001);
  });
  assert.ok(blocked.cpuMs < boundMs(50), `${blocked.cpuMs} ms`);
});
