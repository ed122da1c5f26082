/** Which layers of packages a bill of materials describes, by the paths in them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { billOf, packBill } from '../../../src/conda/bills/bill.ts';
import { createDescribedLayers, findingsIn } from '../../../src/conda/bills/described-layers.ts';
import { digestOf } from '../../../src/oci/digest.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { solutionFor } from './solution.ts';

const metadata = 'lib/python3.12/site-packages/Zope.Interface-7.0.dist-info/METADATA';
const site = 'lib/python3.12/site-packages';
const found = (paths: readonly string[]) => findingsIn(Buffer.from(paths.join('\0')));
const log = { warn() {} };

suite('layers that a bill describes', () => {
  test('Python projects have their names at PyPI', async () => {
    const egg = 'lib/python3.12/site-packages/old_one-1.0-py3.12.egg-info';
    const { projects, isDescribed } = await found([metadata, egg]);
    assert.deepEqual(projects, [
      { name: 'zope-interface', version: '7.0', purl: 'pkg:pypi/zope-interface@7.0' },
      { name: 'old-one', version: '1.0', purl: 'pkg:pypi/old-one@1.0' },
    ]);
    assert.equal(isDescribed, true);
  });

  const read: readonly (readonly [string, readonly string[]])[] = [
    ['a program', ['bin/seqkit']],
    ['a jar beside a Python project', [metadata, 'share/picard.jar']],
    ['modules of Node', ['lib/node_modules/x/package.json']],
    ['packages of .NET', ['lib/one.deps.json']],
    ['metadata without a version', [metadata, `${site}/requests.egg-info/PKG-INFO`]],
    ['an egg', [metadata, `${site}/one-2.19.0-py3.9.egg/EGG-INFO/PKG-INFO`]],
    ['a zipped egg', [metadata, `${site}/one-2.19.0-py3.9.egg`]],
    ['metadata in capital letters', [metadata, `${site}/one-2.19.0.DIST-INFO/METADATA`]],
    ['metadata with a dash in the name', [metadata, `${site}/foo-bar-1.0.dist-info/METADATA`]],
    ['a version without a digit', [metadata, `${site}/foo-bar.dist-info/METADATA`]],
    ['a program in a Python project', [metadata, `${site}/wandb/bin/wandb-core`]],
    ['a program below the commands', [metadata, 'bin/tools/one']],
    ['a helper of a Python project', [metadata, 'libexec/one']],
    ['a plugin', ['lib/docker/cli-plugins/docker-compose']],
    ['a program in a shared folder', ['share/tool/tool']],
    ['a program with its version', ['share/tool/tool-1.2']],
    ['a program for one architecture', ['share/tool/tool.x86_64']],
    ...['kar', 'rar', 'lpkg', 'zip', 'JAR'].map(
      end => [`a .${end}`, [metadata, `share/one.${end}`]] as const,
    ),
  ];
  for (const [what, paths] of read) {
    test(`the layer of ${what} is read`, async () => {
      assert.equal((await found(paths)).isDescribed, false);
    });
  }

  const described: readonly (readonly [string, readonly string[]])[] = [
    ['a library', ['lib/libz.so.1', 'include/zlib.h']],
    ['a Python project with a script', [metadata, 'bin/zope']],
    ['metadata as a file', [`${site}/old_one-1.0-py3.12.egg-info`]],
    [
      'files that only seem to be programs',
      [
        ...[
          'lib/libz.so.1.3.1',
          'include/Eigen/Core',
          'share/man/man1/xz.1',
          'share/zoneinfo/Zulu',
        ],
        ...[
          'share/doc/zlib/LICENSE',
          `${metadata.replace('METADATA', 'RECORD')}`,
          `${site}/x/LICENSE-MIT`,
        ],
      ],
    ],
    ['no files', []],
  ];
  for (const [what, paths] of described) {
    test(`the layer of ${what} is described`, async () => {
      assert.equal((await found(paths)).isDescribed, true);
    });
  }

  test('a shared layer is described if all of its packages are, and known', async () => {
    const [one, two, three] = ['1', '2', '3'].map(text => digestOf(Buffer.from(text)));
    assert.ok(one && two && three);
    const paths: Record<string, string> = { library: 'lib/libz.so', program: 'bin/one' };
    const describe = createDescribedLayers(async key => {
      const text = paths[key];
      return text === undefined ? undefined : deflateRawSync(text);
    }, log);
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

  test('a layer whose paths cannot be read is not described', async () => {
    const warned: string[] = [];
    const digest = digestOf(Buffer.from('1'));
    const broken = {
      large: async () => deflateRawSync(Buffer.alloc(16 * 1024 * 1024 + 1)),
      damaged: async () => Buffer.from('no deflate stream'),
      gone: async () => {
        throw new Error('the database is closed');
      },
    };
    const describe = createDescribedLayers(key => broken[key as keyof typeof broken](), {
      warn: ({ package: key }: { package: string }) => void warned.push(key),
    } as never);
    const solution = solutionFor('linux-64');
    const keys = Object.keys(broken);
    const contents = keys.map(key => ({ digest, keys: [key] }));
    const platforms = solution.platforms.map(platform => ({ ...platform, contents }));
    const [parts] = await describe(await packBill(billOf({ ...solution, platforms })));
    assert.deepEqual([...(parts?.layers ?? [])], []);
    assert.deepEqual(warned, keys);
  });

  test('long paths are read with pauses', async () => {
    const path = `${'lib/'.repeat(1000)}one.py`;
    const paths = Buffer.from(`${path}\0`.repeat(5000));
    const { cpuMs } = await longestBlock(() => findingsIn(paths));
    assert.ok(cpuMs < boundMs(30), `${cpuMs} ms`);
  });
});
