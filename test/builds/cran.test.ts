/** R packages as recipes for a builder: what is accepted, what the recipe says, and what it is named and found by. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildKey } from '../../src/builds/plan/build-key.ts';
import type { CranSource } from '../../src/builds/recipe/cran/read-cran.ts';
import { baseImagesOf } from '../../src/builds/recipe/dockerfile/base-images.ts';
import { readBuildSource, sourceKindOf } from '../../src/builds/recipe/recipe-kinds.ts';
import type { SubmittedPackages } from '../../src/builds/recipe/submitted.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { recipeOf } from './recipe-of.ts';

const read = (packages: SubmittedPackages) =>
  readBuildSource({ packages: { type: 'CRAN', ...packages } }) as CranSource;
const lockText = (more: object = {}) =>
  JSON.stringify({
    R: { Version: '4.3.2', Repositories: [{ Name: 'CRAN', URL: 'https://cran.example.com' }] },
    Packages: { dplyr: { Package: 'dplyr', Version: '1.1.4', Source: 'Repository' } },
    ...more,
  });
const base64 = (text: string) => Buffer.from(text).toString('base64');
const locked = (more?: object) => ({ environment: base64(lockText(more)) });

test('a list becomes one recipe, whatever its order and its form', () => {
  const source = read({
    entries: ['ggplot2', 'dplyr==1.1.4', 'bioc::DESeq2', 'ggplot2', 'data.table@1.15.0'],
  });
  assert.deepEqual(source.wanted, {
    form: 'packages',
    packages: ['bioc::DESeq2', 'data.table@1.15.0', 'dplyr@1.1.4', 'ggplot2'],
  });
  const { dockerfile, files, lockStage } = recipeOf(source);
  assert.match(dockerfile, /^FROM docker\.io\/rocker\/r-ver:4\.4\.1 AS image$/m);
  assert.doesNotMatch(dockerfile, /apt-get/);
  assert.equal(
    files.get('packages.txt'),
    'bioc::DESeq2\ndata.table@1.15.0\ndplyr@1.1.4\nggplot2\n',
  );
  assert.equal(files.get('repositories.txt'), '');
  assert.equal(lockStage, 'lock');
  assert.deepEqual(
    baseImagesOf(dockerfile).map(({ reference }) => reference),
    ['docker.io/rocker/r-ver:4.4.1'],
  );
  assert.deepEqual(sourceKindOf(source).tools(source), [
    { name: 'DESeq2', version: undefined },
    { name: 'data.table', version: '1.15.0' },
    { name: 'dplyr', version: '1.1.4' },
    { name: 'ggplot2', version: undefined },
  ]);
});

test('base packages and commands are steps, and what only the script of other services requires is left out', () => {
  const { options } = read({
    entries: ['xml2'],
    cranOpts: {
      rImage: 'r.example.com/r:4',
      basePackages: 'littler r-cran-docopt  libxml2-dev curl=8.5.0-2',
      commands: ['echo done', 'ENV A=1'],
    },
  });
  assert.deepEqual(options.basePackages, ['curl=8.5.0-2', 'libxml2-dev']);
  const { dockerfile } = recipeOf(read({ entries: ['xml2'], cranOpts: { commands: ['echo a'] } }));
  assert.match(dockerfile, /install\.R .*\nRUN echo a\n\nFROM scratch AS lock\n/);
});

test('a lock file decides the version of R', () => {
  const source = read(locked());
  assert.equal(source.options.rImage, 'docker.io/rocker/r-ver:4.3.2');
  const { files } = recipeOf(source);
  assert.equal(files.get('renv.lock'), lockText());
  assert.equal(files.has('packages.txt'), false);
  const spaced = read({ environment: base64(JSON.stringify(JSON.parse(lockText()), null, 2)) });
  assert.deepEqual(spaced, source);
});

test('the key differs for every part of a request', () => {
  const sources = [
    read({ entries: ['dplyr'] }),
    read({ entries: ['dplyr@1.1.4'] }),
    read({ entries: ['dplyr'], channels: ['https://cran.example.com/'] }),
    read({ entries: ['dplyr'], cranOpts: { rImage: 'rocker/r-ver:4.4.2' } }),
    read({ entries: ['dplyr'], cranOpts: { basePackages: 'curl' } }),
    read({ entries: ['dplyr'], cranOpts: { commands: ['echo'] } }),
    read(locked()),
    read(locked({ more: 1 })),
  ];
  const keys = sources.map(source =>
    buildKey({
      source,
      maker: 'buildkit',
      platforms: ['linux/amd64'],
      repository: 'a/b',
      nameStrategy: undefined,
    }),
  );
  assert.equal(new Set(keys).size, keys.length);
});

const refused: readonly (readonly [what: string, packages: SubmittedPackages, message: RegExp])[] =
  [
    ['nothing', {}, /does not name a package: list R packages/],
    ['both', { ...locked(), entries: ['a'] }, /exclude each other/],
    ['a command', { entries: ["a'); system('id')"] }, /'packages\.entries\[0\]': .* is not an R/],
    ['an option', { entries: ['--all'] }, /is not an R package/],
    ['a repository of git', { entries: ['user/repository'] }, /lock them with renv/],
    ['a name in two lines', { entries: ['a\nb'] }, /line break/],
    [
      'a channel of Conda',
      { entries: ['ab'], channels: ['conda-forge'] },
      /'packages\.channels\[0\]'/,
    ],
    [
      'a password',
      { entries: ['ab'], channels: ['https://a:b@c.example'] },
      /contains credentials/,
    ],
    ['a file', { entries: ['ab'], channels: ['file:///etc'] }, /is not a https or http address/],
    [
      'a Debian option',
      { entries: ['ab'], cranOpts: { basePackages: '-o Dir=x' } },
      /Debian package/,
    ],
    ['scratch', { entries: ['ab'], cranOpts: { rImage: 'scratch' } }, /'scratch' is empty/],
    [
      'a stage',
      { entries: ['ab'], cranOpts: { commands: ['FROM b'] } },
      /FROM is not possible here/,
    ],
    ['no JSON', { environment: base64('dependencies: []') }, /is not JSON.*renv\.lock/],
    ['another JSON', { environment: base64('[1]') }, /is not a renv\.lock/],
    ['no packages', locked({ Packages: {} }), /locks no package/],
    [
      'an evil name',
      locked({ Packages: { '../a': {} } }),
      /'\.\.\/a' is not the name of an R package/,
    ],
    [
      'a lock file with a password',
      locked({ R: { Repositories: [{ URL: 'https://a:b@c.example' }] } }),
      /R\.Repositories\[0\]' contains credentials/,
    ],
    [
      'a package of a lock file with a password',
      locked({ Packages: { dplyr: { RemoteUrl: 'https://me:sesame@git.example/dplyr' } } }),
      /Packages\.dplyr' contains credentials/,
    ],
    ['a lock file without addresses', locked({ R: { Repositories: [null] } }), /is empty/],
  ];

for (const [what, packages, message] of refused) {
  test(`refused: ${what}`, () => {
    assert.throws(
      () => read(packages),
      (error: unknown) => {
        assert.ok(error instanceof Fault);
        assert.equal(error.status, 400);
        assert.match(error.message, message);
        return true;
      },
    );
  });
}

test('extras of a Python project are refused beside R packages', () => {
  for (const pipOpts of [{ extras: ['all'] }, { groups: ['test'] }]) {
    assert.throws(() => read({ entries: ['dplyr'], pipOpts }), {
      kind: 'bad-request',
      message: /^'packages\.pipOpts' selects parts of a Python project/,
    });
  }
  assert.equal(read({ entries: ['dplyr'], pipOpts: {} }).kind, 'cran');
});
