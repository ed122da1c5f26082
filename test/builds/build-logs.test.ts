import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { createBuildLogs } from '../../src/builds/logs/build-logs.ts';
import type { LogLine } from '../../src/builds/logs/log-lines.ts';
import { boundMs } from '../world/longest-block.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const never = new AbortController().signal;

test('a log is read while it is written, followed to its end, and is plain text', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.join('below'));
  assert.equal(await logs.read('key_1'), undefined);
  const writer = logs.begin('key_1');
  assert.equal(await logs.read('key_1'), '', 'it is there, though nothing is in it');
  const followed = (async () => {
    let text = '';
    for await (const piece of logs.follow('key_1', never)) text += piece.toString();
    return text;
  })();
  writer.write('one\n');
  writer.write('\u001b[31mtwo\u001b[0m\n');
  await writer.end();
  assert.equal(await followed, 'one\ntwo\n');
  assert.equal(await logs.read('key_1'), 'one\ntwo\n');
});

test('lines that follow each other are written together', async t => {
  await using directory = await makeTempDir('logs');
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const logs = createBuildLogs(directory.path);
  const writer = logs.begin('key_1');
  for (const line of ['one\n', 'two\n']) {
    writer.write(line);
    assert.equal(await logs.read('key_1'), '');
    assert.deepEqual(await readdir(directory.path), []);
  }
  await writer.written();
  assert.equal(await logs.read('key_1'), 'one\ntwo\n');
  writer.write('three\n');
  t.mock.timers.runAll();
  await writer.end();
  assert.equal(await logs.read('key_1'), 'one\ntwo\nthree\n');
});

test('the log of a restarted build continues, within the same limit', async () => {
  await using directory = await makeTempDir('logs');
  const piece = 'x'.repeat(1024 * 1024);
  const logs = createBuildLogs(directory.path);
  for (let begun = 0; begun < 3; begun += 1) {
    const writer = logs.begin('key_1');
    for (let count = 0; count < 6; count += 1) writer.write(piece);
    await writer.end();
  }
  const text = (await logs.read('key_1')) ?? '';
  assert.equal(text.indexOf('\n[the log'), 10 * piece.length);
  assert.match(text.slice(-100), /exceeds 10 MiB: the rest is not kept\]\n$/);
});

test('a log that is cut still says how the build ended', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  for (const end of ['\nThe server stops.\n', '\nThe build failed: it is wrong\n']) {
    const writer = logs.begin('key_1');
    for (let count = 0; count < 20; count += 1) {
      writer.write(`${'y'.repeat(1024 * 1024)}\n`);
      await writer.written();
    }
    writer.conclude(end);
    await writer.end();
  }
  const text = (await logs.read('key_1')) ?? '';
  assert.ok(text.length < 10 * 1024 * 1024 + 200);
  assert.match(
    text.slice(-150),
    /not kept\]\n\nThe server stops\.\n\nThe build failed: it is wrong\n$/,
  );
});

test('text that comes faster than the disk takes it is left out, and the log says so', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const writer = logs.begin('key_1');
  // Nothing is written before this turn of the event loop ends.
  for (let count = 0; count < 10_000; count += 1) writer.write(`${'\r'.repeat(64 * 1024)}z\n`);
  await writer.written();
  writer.conclude('\nThe build succeeded\n');
  await writer.end();
  const text = (await logs.read('key_1')) ?? '';
  assert.ok(text.split('z').length < 200, `${text.split('z').length} lines were kept in memory`);
  assert.match(text, /part of the log is missing[^\n]*\n\nThe build succeeded\n$/);
});

test('only the logs of known builds stay', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.join('below'));
  await logs.retain(async () => false);
  for (const id of ['a_1', 'b_1']) {
    const writer = logs.begin(id);
    writer.write(id);
    await writer.end();
  }
  await logs.retain(async id => id === 'b_1');
  assert.deepEqual(await readdir(directory.join('below')), ['b_1.log']);
});

test('the colour of a log, or of a line, that is cut ends there', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const writer = logs.begin('key_1');
  writer.write(`#1 0.1 \u001b[31m${'x'.repeat(11 * 1024 * 1024)}\u001b[0m\n`);
  await writer.end();
  const text = (await logs.read('key_1', { hasColours: true })) ?? '';
  assert.ok(text.slice(-100).includes('x\u001b[0m\n[the log exceeds 10 MiB'));
  assert.ok(!(await logs.read('key_1'))?.includes('\u001b'));
  const [line] = (await (await logs.lines('key_1'))?.read(0, 1)) ?? [];
  assert.ok(line?.isCut && line.coloured.endsWith('x\u001b[0m'), line?.coloured.slice(-20));
});

test('a log whose steps write in turns too often says that it is not sorted to its end', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  for (const [key, turns] of [
    ['key_1', 20_000],
    ['key_2', 20_002],
  ] as const) {
    const writer = logs.begin(key);
    const text = Array.from({ length: turns }, (_, at) => `#${1 + (at % 2)} 0.1 turn ${at}\n`);
    writer.write(text.join(''));
    await writer.end();
    const lines = await logs.lines(key);
    assert.equal(lines?.hasAllOfSteps, turns === 20_000);
    assert.equal((lines?.countOf(1) ?? 0) + (lines?.countOf(2) ?? 0), 20_000);
  }
});

test('the lines of a step are found at once in a log of 100,000 lines of eight parallel steps', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const writer = logs.begin('key_1');
  let text = '';
  // Blocks of six lines, as many blocks as can be found by their steps.
  for (let at = 0; at < 100_000; at += 1) {
    text += `#${1 + (Math.floor(at / 6) % 8)} 1.5 line ${at} ${'x'.repeat(60)}\n`;
  }
  writer.write(text);
  await writer.end();
  const lines = await logs.lines('key_1');
  assert.ok(lines);
  assert.equal(lines.countOf(3), 12_502);
  for (const from of [0, 6000, 12_102]) {
    const before = process.cpuUsage();
    const found: readonly LogLine[] = await lines.read(from, from + 400, 3);
    const { user, system } = process.cpuUsage(before);
    assert.equal(found.length, 400);
    assert.ok(found.every(line => line.text.startsWith('#3 1.5 line ')));
    const numbers = found.map(({ number }) => number);
    assert.deepEqual(
      numbers,
      [...new Set(numbers)].sort((one, other) => one - other),
    );
    assert.ok((user + system) / 1000 < boundMs(50), `${(user + system) / 1000} ms from ${from}`);
  }
  // All blocks of a step cost no more than the whole log.
  const cpuOf = async (work: () => Promise<unknown>) => {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  };
  const whole = await cpuOf(() => lines.read(0, 100_000));
  const ofStep = await cpuOf(() => lines.read(0, 12_502, 3));
  assert.ok(ofStep < 1.5 * whole, `${ofStep} ms for a step, ${whole} ms for the log`);
});
