/** Pages on which source distributions stand as wheels. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unbuiltPage } from '../../../src/pypi/indexes/unbuilt-page.ts';
import type { BuiltWheel } from '../../../src/pypi/wheel-file.ts';

const sha256 = 'a'.repeat(64);
const fileOf = (filename: string) => ({
  filename,
  url: `../../files/made/${filename}`,
  hashes: { sha256 },
});
const pageOf = (...names: string[]) => Buffer.from(JSON.stringify({ files: names.map(fileOf) }));

test('of a version with two archives, only the wheel that was built of one of them is listed', () => {
  const page = pageOf('made-1.0.zip', 'made-1.0.tar.gz', 'made-1.0.0.zip', 'made-0.9.zip');
  const built: BuiltWheel = {
    ...{ name: 'made', version: '1.0', fileName: 'made-1.0-py3-none-any.whl' },
    ...{ url: 'sluice-built:0', sha256: 'b'.repeat(64), metadata: 'Name: made\n' },
    source: { fileName: 'made-1.0.tar.gz', url: 'http://index.test/made-1.0.tar.gz', sha256 },
  };
  const listed = (found = unbuiltPage(page, 'made', [built])) =>
    (JSON.parse(String(found?.page)) as { files: { filename: string; url: string }[] }).files
      .map(({ url }) => url)
      .filter(url => !url.includes('/files/'));
  assert.deepEqual(listed(), [
    '../../built/1.0/made-1.0-py3-none-any.whl',
    '../../unbuilt/0.9/made-0.9-py3-none-any.whl',
  ]);
});
