import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { imageName, type NameStrategy } from '../../src/builds/plan/image-name.ts';
import { type BuildSource, readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import { isTag, parseReference } from '../../src/oci/reference.ts';

const repository = 'registry.example.com/team/build';
const key = '0123456789abcdef0123456789abcdef';
const base64 = (text: string) => Buffer.from(text).toString('base64');
const named = (source: BuildSource, strategy?: NameStrategy) =>
  imageName({ repository, key, source, strategy }).replace(repository, '').replaceAll(key, 'KEY');
const conda = (...entries: string[]) => readBuildSource({ packages: { type: 'CONDA', entries } });
const file = (text: string) => readBuildSource({ condaFile: base64(text) });
const dockerfile = readBuildSource({ containerFile: base64('FROM samtools=1.20') });

const table: readonly [what: string, source: BuildSource, prefix: string, suffix: string][] = [
  ['a Dockerfile', dockerfile, ':KEY', ':KEY'],
  ['a package', conda('samtools'), ':samtools--KEY', '/samtools:KEY'],
  ['a version', conda('samtools=1.20'), ':samtools-1.20--KEY', '/samtools:1.20--KEY'],
  ['an exact version', conda('samtools==1.20'), ':samtools-1.20--KEY', '/samtools:1.20--KEY'],
  ['a version and a build', conda('bwa=0.7.17=h7_9'), ':bwa-0.7.17--KEY', '/bwa:0.7.17--KEY'],
  ['a version after a blank', conda('bwa 0.7.17 h7_9'), ':bwa-0.7.17--KEY', '/bwa:0.7.17--KEY'],
  ['a version with a star', conda('bwa=0.7.*'), ':bwa-0.7--KEY', '/bwa:0.7--KEY'],
  ['a version in brackets', conda('bwa[version="0.7.17"]'), ':bwa-0.7.17--KEY', '/bwa:0.7.17--KEY'],
  ['a range is not a version', conda('numpy>=1.20,<2'), ':numpy--KEY', '/numpy:KEY'],
  ['a fuzzy range neither', conda('numpy~=1.20'), ':numpy--KEY', '/numpy:KEY'],
  ['versions apart neither', conda('numpy=1.20|1.21'), ':numpy--KEY', '/numpy:KEY'],
  ['an epoch and a local version', conda('a=1!2.0+x'), ':a-1-2.0-x--KEY', '/a:1-2.0-x--KEY'],
  ['a channel', conda('bioconda::bwa=1'), ':bwa-1--KEY', '/bwa:1--KEY'],
  ['sorted', conda('samtools=1.20', 'bwa'), ':bwa_samtools-1.20--KEY', '/bwa_samtools:KEY'],
  ['one version shared by two', conda('a=1', 'b=1'), ':a-1_b-1--KEY', '/a_b:KEY'],
  ['a package twice', conda('a=1', 'a>0'), ':a-1--KEY', '/a:1--KEY'],
  ['five', conda('a', 'b', 'c', 'd', 'e'), ':a_b_c_d_e--KEY', '/a_b_c_d_e:KEY'],
  ['six', conda('a', 'b', 'c', 'd', 'e', 'f'), ':a_b_c_d_pruned--KEY', '/a_b_c_d_pruned:KEY'],
  [
    'pip',
    conda('python=3.12', 'pip:z==1', 'pip:flask[x]>=1'),
    ':python-3.12_z-1_flask--KEY',
    '/python_z_flask:KEY',
  ],
  [
    'options and URLs of pip',
    conda('a', 'pip:--pre', 'pip:git+https://x/y', 'pip:b @ https://x/y'),
    ':a_b--KEY',
    '/a_b:KEY',
  ],
  ['URLs', conda('https://x.example.com/linux-64/a-1-0.conda', 'b'), ':b--KEY', '/b:KEY'],
  ['nothing but a URL', conda('https://x.example.com/linux-64/a-1-0.conda'), ':KEY', ':KEY'],
  ['a lock file', conda('https://x.example.com/lock'), ':KEY', ':KEY'],
  [
    'the content of one',
    conda('@EXPLICIT\nhttps://x.example.com/noarch/a-1-0.conda'),
    ':KEY',
    ':KEY',
  ],
  [
    'a named environment',
    file('name: My_Env\ndependencies: [a=1, b]'),
    ':My_Env--KEY',
    '/my_env:KEY',
  ],
  [
    'a name with anything in it',
    file('name: "--é/x y__"\ndependencies: [a]'),
    ':x-y--KEY',
    '/x-y:KEY',
  ],
  ['a name of nothing that fits', file('name: "日本"\ndependencies: [a=1]'), ':KEY', ':KEY'],
  ['capitals and odd characters', conda('_Lib..X__y'), ':Lib..X__y--KEY', '/lib-x-y:KEY'],
];

for (const [what, source, prefix, suffix] of table) {
  test(`names: ${what}`, () => {
    assert.equal(named(source, 'none'), ':KEY');
    assert.equal(named(source, 'tagPrefix'), prefix);
    assert.equal(named(source), prefix);
    assert.equal(named(source, 'imageSuffix'), suffix);
  });
}

test('long names are shortened between names, a single name at any position', () => {
  const long = 'x'.repeat(50);
  assert.equal(named(conda('a', long, `y${long}`)), `:a_${long}--KEY`);
  assert.equal(named(conda(`${'z'.repeat(79)}-more`)), `:${'z'.repeat(79)}--KEY`);
});

test('a long repository leaves less space for names, or none', () => {
  const name = (length: number) =>
    imageName({
      repository: `r.example.com/${'a'.repeat(length)}`,
      key,
      source: conda('abc', 'def'),
      strategy: 'imageSuffix',
    });
  assert.match(name(247), /a\/abc_def:/);
  assert.match(name(250), /a\/abc:/);
  assert.match(name(252), /a\/ab:/);
  assert.match(name(254), /a{254}:/);
  assert.match(name(255), /a{255}:/);
});

test('Docker Hub has its full name', () => {
  const name = imageName({
    repository: 'team/build',
    key,
    source: conda('bwa'),
    strategy: 'imageSuffix',
  });
  assert.equal(name, `docker.io/team/build/bwa:${key}`);
});

const names = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.*-]{0,100}$/),
  fc.string({ unit: 'grapheme', maxLength: 100 }),
  fc
    .array(fc.constantFrom('a', 'B', '.', '_', '-', '__', '/', ':', '@', ' ', 'é'), {
      maxLength: 90,
    })
    .map(some => some.join('')),
);
const paths = fc.stringMatching(/^[a-z0-9]{1,250}(?:\/[a-z]{1,3})?$/);

test('for any package names, the image name is a reference in the repository and ends with the key', () => {
  const sources: fc.Arbitrary<BuildSource> = fc
    .record({
      name: fc.option(names, { nil: undefined }),
      packages: fc.array(names),
      pip: fc.array(names),
    })
    .map(({ name, packages, pip }) => ({
      kind: 'conda',
      wanted: {
        form: 'environment',
        ...(name === undefined ? {} : { name }),
        packages,
        pip,
        variables: [],
      },
      channels: ['a'],
      options: { mambaImage: 'm', baseImage: 'b', basePackages: [], commands: [] },
    }));
  const strategies = fc.constantFrom<NameStrategy>('none', 'tagPrefix', 'imageSuffix');
  fc.assert(
    fc.property(sources, paths, strategies, (source, path, strategy) => {
      const text = imageName({ repository: `r.example.com/${path}`, key, source, strategy });
      const { registry, repository, tag = '' } = parseReference(text);
      assert.equal(registry, 'r.example.com');
      assert.ok(
        repository === path || (strategy === 'imageSuffix' && repository.startsWith(`${path}/`)),
      );
      assert.ok(isTag(tag) && tag.endsWith(key), tag);
      assert.ok(tag === key || strategy !== 'none');
    }),
    { numRuns: 2000 },
  );
});
