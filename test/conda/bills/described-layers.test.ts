/** Which layers of packages a bill of materials describes, by the paths in them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { billOf, packBill } from '../../../src/conda/bills/bill.ts';
import { createDescribedLayers, findingsIn } from '../../../src/conda/bills/described-layers.ts';
import { digestOf } from '../../../src/oci/digest.ts';
import { solutionFor } from './solution.ts';

const metadata = 'opt/conda/lib/python3.12/site-packages/Zope.Interface-7.0.dist-info/METADATA';

suite('layers that a bill describes', () => {
  test('Python projects have their names at PyPI', async () => {
    const egg = 'opt/conda/lib/python3.12/site-packages/old_one-1.0-py3.12.egg-info';
    const { projects, isDescribed } = await findingsIn([metadata, egg].join('\0'));
    assert.deepEqual(projects, [
      { name: 'zope-interface', version: '7.0', purl: 'pkg:pypi/zope-interface@7.0' },
      { name: 'old-one', version: '1.0', purl: 'pkg:pypi/old-one@1.0' },
    ]);
    assert.equal(isDescribed, true);
  });

  const read: readonly (readonly [string, readonly string[]])[] = [
    ['a program', ['opt/conda/bin/seqkit']],
    ['a jar beside a Python project', [metadata, 'opt/conda/share/picard.jar']],
    ['modules of Node', ['opt/conda/lib/node_modules/x/package.json']],
    ['packages of .NET', ['opt/conda/lib/one.deps.json']],
  ];
  for (const [what, paths] of read) {
    test(`the layer of ${what} is read`, async () => {
      assert.equal((await findingsIn(paths.join('\0'))).isDescribed, false);
    });
  }

  const described: readonly (readonly [string, readonly string[]])[] = [
    ['a library', ['opt/conda/lib/libz.so.1', 'opt/conda/include/zlib.h']],
    ['a Python project with a script', [metadata, 'opt/conda/bin/zope']],
    ['no files', []],
  ];
  for (const [what, paths] of described) {
    test(`the layer of ${what} is described`, async () => {
      assert.equal((await findingsIn(paths.join('\0'))).isDescribed, true);
    });
  }

  test('a shared layer is described if all of its packages are, and known', async () => {
    const [one, two, three] = ['1', '2', '3'].map(text => digestOf(Buffer.from(text)));
    assert.ok(one && two && three);
    const paths: Record<string, string> = { library: 'lib/libz.so', program: 'bin/one' };
    const describe = createDescribedLayers(async key => {
      const text = paths[key];
      return text === undefined ? undefined : deflateRawSync(text);
    });
    const solution = solutionFor('linux-64');
    const contents = [
      { digest: one, keys: ['library'] },
      { digest: two, keys: ['library', 'program'] },
      { digest: three, keys: ['library', 'gone'] },
    ];
    const platforms = solution.platforms.map(platform => ({ ...platform, contents }));
    const [parts] = await describe(await packBill(billOf({ ...solution, platforms })));
    assert.deepEqual([...(parts?.layers ?? [])], [one]);
    assert.deepEqual(parts?.contents, [one, two, three]);
    assert.match(parts?.components[0]?.purl ?? '', /^pkg:conda\//);
    const earlier = await describe(await packBill(billOf(solution)));
    assert.deepEqual(earlier[0]?.contents, []);
  });
});
