import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { createBuildLogs } from '../../src/builds/logs/build-logs.ts';
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
