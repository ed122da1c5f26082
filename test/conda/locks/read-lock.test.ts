/** Lock files of all forms, as programs write them and as no program should. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { billOf, packBill } from '../../../src/conda/bills/bill.ts';
import { writeDocument } from '../../../src/conda/bills/write-documents.ts';
import { lockLines, plainText } from '../../../src/conda/locks/lock-lines.ts';
import { readLock } from '../../../src/conda/locks/read-lock.ts';
import { maxLockLength, readLockText } from '../../../src/conda/locks/read-lock-text.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { processorMs } from '../../world/processor-time.ts';
import { solutionFor } from '../bills/solution.ts';

const bill = billOf(solutionFor('linux-64', 'linux-aarch64'));
const md5 = 'a'.repeat(32);
const sha256 = 'b'.repeat(64);
const base = 'https://conda.test/channel';

/** Returns a lock file of pixi with the packages of one environment for linux-64. */
function pixiLock(lines: readonly string[], details: readonly string[], version = 6): string {
  const environment = ['    packages:', '      linux-64:', ...lines.map(line => `      ${line}`)];
  const head = [`version: ${version}`, 'environments:', '  default:', ...environment];
  return [...head, 'packages:', ...details, ''].join('\n');
}

suite('lock files', () => {
  for (const form of ['explicit', 'pixi', 'conda-lock'] as const) {
    test(`a lock file that was written is read again: ${form}`, async () => {
      const text = await writeDocument(await packBill(bill), form);
      for (const { subdir, packages } of bill.platforms) {
        const found = readLockText(text, subdir);
        assert.deepEqual(found.pip, []);
        const sums = (list: readonly { url: string; md5?: string; sha256?: string }[]) =>
          new Map(list.map(({ url, md5, sha256 }) => [url, form === 'explicit' ? md5 : sha256]));
        assert.deepEqual(
          new Map([...sums(found.packages as never)].sort()),
          new Map([...sums(packages as never)].sort()),
        );
        for (const { url, name, version, build, fileName } of found.packages) {
          const expected = packages.find(it => it.url === url);
          const { name: itsName, version: itsVersion, ...more } = expected ?? ({} as never);
          assert.deepEqual(
            [name, version, build, fileName],
            [itsName, itsVersion, more.build, more.fileName],
          );
        }
      }
      assert.throws(
        () => readLockText(text, 'osx-64'),
        /for osx-64, only for linux-64, linux-aarch64/,
      );
    });
  }

  test('versions 5 and 7 of the lock file of pixi are read, with packages of PyPI', () => {
    const url = `${base}/linux-64/tool-1.0-h1_3.conda`;
    const wheel = 'https://files.test/rich-13.0.0-py3-none-any.whl';
    const listed = [`- conda: ${url}`, `- pypi: ${wheel}`];
    const five = [
      ...['- kind: conda', '  name: tool', `  url: ${url}`, `  sha256: ${sha256}`],
      ...[`  md5: ${md5}`, '  depends:', '  - libgcc >=13', "  - 'python >=3.12'", '  size: 77'],
      ...['- kind: pypi', '  name: rich', '  version: 13.0.0', `  url: ${wheel}`],
      `  sha256: ${sha256}`,
    ];
    const seven = [
      ...[`- conda: ${url}`, `  sha256: ${sha256}`, `  md5: ${md5}`],
      ...['  depends:', '    - libgcc >=13', '    - "python >=3.12"', '  size: 77'],
      ...[`- pypi: ${wheel}`, '  name: rich', `  sha256: ${sha256}`, '  requires_dist:', '  - x'],
    ];
    for (const text of [pixiLock(listed, five, 5), pixiLock(listed, seven, 7)]) {
      const { packages, pip } = readLockText(text, 'linux-64');
      assert.deepEqual(packages, [
        {
          ...{ name: 'tool', version: '1.0', build: 'h1_3', buildNumber: 3, subdir: 'linux-64' },
          ...{ fileName: 'tool-1.0-h1_3.conda', url, md5, sha256, size: 77 },
          depends: ['libgcc >=13', 'python >=3.12'],
        },
      ]);
      assert.deepEqual(pip, [`rich @ ${wheel}#sha256=${sha256}`]);
    }
  });

  test('the environment default is read, or the only one', () => {
    const one = `${base}/noarch/one-1-0.conda`;
    const two = `${base}/noarch/two-1-0.conda`;
    const environments = (...names: readonly string[]) =>
      [
        ...['version: 6', 'environments:'],
        ...names.flatMap((name, position) => [
          ...[`  ${name}:`, '    channels:', `    - url: ${base}/`, '    packages:'],
          ...['      linux-64:', `      - conda: ${position === 0 ? one : two}`],
        ]),
        ...['packages:', `- conda: ${one}`, `- conda: ${two}`],
      ].join('\n');
    const names = (text: string) => readLockText(text, 'linux-64').packages.map(({ name }) => name);
    assert.deepEqual(names(environments('test', 'default')), ['two']);
    assert.deepEqual(names(environments('only')), ['one']);
    assert.throws(
      () => names(environments('cpu', 'gpu')),
      /no environment 'default' among cpu, gpu/,
    );
  });

  const conda = (url: string, ...more: readonly string[]) =>
    pixiLock([`- conda: ${url}`], [`- conda: ${url}`, ...more]);
  const refused: readonly (readonly [string, string, RegExp])[] = [
    [
      'an old pixi.lock',
      conda(`${base}/noarch/a-1-0.conda`).replace('version: 6', 'version: 3'),
      /version '3'/,
    ],
    [
      'a package without entry',
      pixiLock([`- conda: ${base}/noarch/a-1-0.conda`], []),
      /no entry below/,
    ],
    ['a file', conda('file:///etc/noarch/a-1-0.conda'), /not an http or https address/],
    ['a source package', pixiLock(['- conda_source: .'], ['- conda_source: .']), /no package for/],
    [
      'an address with a password',
      conda('https://me:key@conda.test/noarch/a-1-0.conda'),
      /credentials/,
    ],
    [
      'an address with a token',
      conda('https://conda.test/t/key/c/noarch/a-1-0.conda'),
      /credentials/,
    ],
    [
      'a wrong digest',
      conda(`${base}/noarch/a-1-0.conda`, `  md5: ${md5}`, '  sha256: abc'),
      /64 lower-case/,
    ],
    ['another platform', conda(`${base}/osx-64/a-1-0.conda`), /a-1-0.conda is for osx-64/],
    ['a path that leads out', conda(`${base}/noarch/..%2f..%2fa-1-0.conda`), /not the address/],
    ['a name that is not one', conda(`${base}/noarch/a%0Ab-1-0.conda`), /not the address/],
    ['no subdirectory', conda('https://conda.test/a-1-0.conda'), /no subdirectory/],
    ['an alias', conda('*package'), /does not have the form/],
    [
      'a package twice',
      `@EXPLICIT\n${base}/noarch/a-1-0.conda\n${base}/noarch/a-2-0.conda\n`,
      /line 3.*as well as a-1/,
    ],
    ['a page', '<html><body>Log in</body></html>', /not a lock file/],
    ['a very long text', `@EXPLICIT\n${' '.repeat(maxLockLength)}`, /more than 4 million/],
    [
      'a wheel that is local',
      pixiLock(
        [`- conda: ${base}/noarch/a-1-0.conda`, '- pypi: ./'],
        [`- conda: ${base}/noarch/a-1-0.conda`, '- pypi: ./', '  name: own'],
      ),
      /file of the machine/,
    ],
  ];
  for (const [what, text, message] of refused) {
    test(`a lock file is refused: ${what}`, () => {
      assert.throws(() => readLockText(text, 'linux-64', 'pixi.lock'), {
        kind: 'bad-request',
        message,
      });
    });
  }

  test('texts made to harm take no time', () => {
    const head = 'version: 6\nenvironments:\npackages:\n';
    const deep = Array.from({ length: 2000 }, (_, level) => `${' '.repeat(level)}a:\n`).join('');
    for (const body of [
      '- '.repeat(1_900_000),
      deep,
      `- "${'\\"'.repeat(1_000_000)}`,
      `${' '.repeat(3_900_000)}x`,
    ]) {
      const ms = processorMs(() => {
        assert.throws(() => readLockText(head + body, 'linux-64'), { kind: 'bad-request' });
      });
      assert.ok(ms < 500, `${ms} ms`);
    }
  });

  test('a large lock file does not hold the event loop', async () => {
    const urls = Array.from(
      { length: 5000 },
      (_, position) => `${base}/noarch/p${position}-1-0.conda`,
    );
    const details = urls.flatMap(url => [
      `- conda: ${url}`,
      `  sha256: ${sha256}`,
      '  depends:',
      '  - p1 >=2',
      `  license: ${'x'.repeat(200)}`,
    ]);
    const text = pixiLock(
      urls.map(url => `- conda: ${url}`),
      details,
    );
    let found = 0;
    const { cpuMs } = await longestBlock(async () => {
      found = (await readLock(text, 'linux-64', 'pixi.lock')).packages.length;
    });
    assert.equal(found, 5000);
    const bound = boundMs(50);
    assert.ok(cpuMs < bound, `held for ${cpuMs} ms, at most ${bound}`);
    await assert.rejects(readLock(text, 'linux-32', 'pixi.lock'), {
      kind: 'bad-request',
      message: /for linux-32/,
    });
  });
});

test('a byte order mark at the beginning is ignored', () => {
  const url = `${base}/linux-64/tool-1.0-0.conda`;
  const explicit = `@EXPLICIT\n${url}#${md5}\n`;
  const pixi = pixiLock([`- conda: ${url}`], [`- conda: ${url}`, `  md5: ${md5}`]);
  for (const text of [explicit, pixi]) {
    assert.deepEqual(readLockText(`\ufeff${text}`, 'linux-64'), readLockText(text, 'linux-64'));
  }
});

test('lines that are hard to read take little time', () => {
  const long = 200_000;
  for (const end of ['x', '\u2028x', '\rx']) {
    for (const line of [
      `key:${' '.repeat(long)}${end}`,
      `key: a${' '.repeat(long)}${end} #`,
      `key: a${' #'.repeat(long / 2)}${end}`,
      `key: '${"''".repeat(long / 2)}' ${' #'.repeat(long / 2)}${end}`,
      `key: "${'\\"'.repeat(long / 2)}" ${' #'.repeat(long / 2)}${end}`,
    ]) {
      const ms = processorMs(() => {
        for (const { value } of lockLines(line)) plainText(value);
      });
      assert.ok(ms < 2000, `${line.slice(0, 20)}: ${ms} ms`);
    }
  }
});

test('a comment is not a part of a value', () => {
  const values = ['a', 'a #', 'a   # b # c', 'a#b', ' #a', `'a b'  # 'c'`, `"a\\"#" # b`];
  assert.deepEqual(values.map(plainText), ['a', 'a', 'a', 'a#b', '', 'a b', 'a"#']);
});
