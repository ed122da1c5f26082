/** An image's layers of given archives have the same digests on every machine, and for ever. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { CondaPackage } from '../../../src/conda/conda-package.ts';
import { digestOf } from '../../../src/oci/digest.ts';
import { condaFolder } from '../../golden/conda.ts';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { channelUrl, digestsOf, layersOf } from './layer-world.ts';

test('the layers of the archives that never change have the digests that they always had', async t => {
  await using channels = await startCondaChannels({ test: [] });
  const packages = globSync('*.{conda,tar.bz2}', { cwd: condaFolder }).map(
    (fileName): CondaPackage => {
      const [, name = '', version = '', build = ''] =
        /^(.+)-([^-]+)-([^-]+?)\.(?:conda|tar\.bz2)$/.exec(fileName) ?? [];
      channels.files.set(`/test/noarch/${fileName}`, readFileSync(join(condaFolder, fileName)));
      const url = `${channelUrl}/noarch/${fileName}`;
      return {
        ...{ name, version, build, buildNumber: 0, subdir: 'noarch', fileName, url, depends: [] },
      };
    },
  );
  const world = await layersOf(t, `${channels.url}/test`);
  const made = await world.make(packages);
  const digests = digestsOf(made);
  // A change means other digests for all images: increase `layerVersion`, and say so in the change log.
  assert.deepEqual(
    digests.map(digest => digest.slice('sha256:'.length, 'sha256:'.length + 16)),
    [
      '72d4a612203102e3',
      'e6185bd2b9c8fc07',
      'fea47907186b3e4f',
      '839243eb543dff11',
      '936da61ca3c2e9cd',
      'fb28c8abcbad01e1',
      '56ad7bae967549c5',
      'e4ec5d96b6748b52',
      'a6c34f195c3144cc',
      'c86a412eb54d5d1a',
      '6b8f87b507435162',
      '5b060ccb0cd4223f',
      '85b4977aa148906a',
      '7e75e8fc296fa205',
    ],
  );
  const never = new AbortController().signal;
  const lazy = await world.reform(made.layers, { mode: 'estargz' }, never);
  const all = lazy.map(({ gzipDigest, annotations }) => [gzipDigest, annotations]);
  // Likewise: increase `formVersion`.
  assert.equal(
    digestOf(Buffer.from(JSON.stringify(all))).slice('sha256:'.length, 23),
    '8e002af5f20d9ce3',
  );
});
