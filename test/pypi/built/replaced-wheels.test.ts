/** Wheels that were built, in a real store. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { createKeptWheels } from '../../../src/pypi/built/kept-wheels.ts';
import { openContentDirectory } from '../../../src/storage/content/content-directory.ts';
import { openRows } from '../../../src/storage/rows/rows.ts';
import { makeTempDir } from '../../world/temp-dir.ts';

async function openWorld(t: TestContext) {
  const directory = await makeTempDir('kept-wheels');
  const rows = openRows(directory.join('sluice.db'), {});
  const content = await openContentDirectory(directory.join('content'), {
    ...{ uses: rows.contentRows, isOwner: true },
  });
  t.after(async () => {
    await content.close();
    await rows.end();
    await directory.remove();
  });
  return { directory, rows, content };
}

const key = 'c'.repeat(64);
const facts = {
  ...{ name: 'made', version: '1.0', fileName: 'made-1.0-py3-none-any.whl', metadata: '' },
  source: { fileName: 'made-1.0.zip', url: 'http://index.test/made-1.0.zip', sha256: '' },
};

test('two builds of one source at once keep different wheels, and both images get theirs', async t => {
  const { rows, content } = await openWorld(t);
  const { cachedBlobs, packageLayers } = rows;
  const kept = createKeptWheels({ content, cachedBlobs, rows: packageLayers });
  const keep = async (text: string) => {
    const bytes = await content.ingest('sha256', text.length);
    await bytes.write(Buffer.from(text));
    return kept.keep(key, facts, bytes);
  };
  const wheels = [await keep('first'), await keep('second wheel')];
  const fetch = kept.fetching(async () => assert.fail('no index has them'));
  const read = wheels.map(async wheel => {
    await using file = await fetch(wheel, new AbortController().signal);
    return [readFileSync(file.path, 'utf8'), file.size];
  });
  assert.deepEqual(await Promise.all(read), [
    ['first', 5],
    ['second wheel', 12],
  ]);
});

test('a wheel that cannot be kept leaves no file', async t => {
  const { directory, rows, content } = await openWorld(t);
  const filesIn = () => readdirSync(directory.join('content'), { recursive: true }).length;
  const before = filesIn();
  const kept = createKeptWheels({
    content,
    cachedBlobs: { adopt: async () => Promise.reject(new Error('no database')) },
    rows: rows.packageLayers,
  });
  const bytes = await content.ingest('sha256', 5);
  await bytes.write(Buffer.from('bytes'));
  assert.notEqual(filesIn(), before);
  await assert.rejects(kept.keep(key, facts, bytes), /no database/);
  assert.equal(filesIn(), before);
});
