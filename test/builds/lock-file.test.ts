import assert from 'node:assert/strict';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pack } from 'tar-stream';
import { readOnlyFile } from '../../src/archives/only-file.ts';

async function archive(): Promise<Buffer> {
  const tar = pack();
  tar.entry({ name: 'conda.lock' }, 'x'.repeat(50_000));
  tar.finalize();
  const parts: Buffer[] = [];
  for await (const part of tar) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

test('a lock file is read from the archive that a builder sends', async () => {
  const bytes = await archive();
  assert.equal(await readOnlyFile(sink => pipeline([bytes], sink())), 'x'.repeat(50_000));
});

test('a truncated archive fails the export, and nothing else', async () => {
  const part = (await archive()).subarray(0, 5000);
  const lost = async function* () {
    yield part;
    await nextTurn();
    throw new Error('the builder is gone');
  };
  // An uncaught error fails the test, as it would end the server.
  await assert.rejects(
    readOnlyFile(sink => pipeline(lost, sink())),
    /the builder is gone/,
  );
  await assert.rejects(
    readOnlyFile(sink => pipeline([part], sink())),
    /Unexpected end of data/,
  );
  await nextTurn();
});
