import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { type BuildIdentity, buildKey, canonicalText } from '../../src/builds/plan/build-key.ts';
import { imageName } from '../../src/builds/plan/image-name.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import {
  type CanonicalField,
  canonicalDocument,
} from '../../src/builds/recipe/text/canonical-document.ts';
import { Fault } from '../../src/foundation/fault.ts';
import type { InjectedLayer } from '../../src/images/augment/image-config.ts';
import type { Digest } from '../../src/oci/digest.ts';
import { identities } from './arbitraries.ts';

test('the key is 32 lower-case hex digits, and is the same every time', () => {
  fc.assert(
    fc.property(identities, identity => {
      assert.match(buildKey(identity), /^[0-9a-f]{32}$/);
      assert.equal(buildKey(structuredClone(identity)), buildKey(identity));
    }),
  );
});

test('two builds with the same canonical text are one build', () => {
  fc.assert(
    fc.property(identities, identities, (one, other) => {
      const isSame = canonicalText(one) === canonicalText(other);
      assert.equal(isSame, JSON.stringify(settled(one)) === JSON.stringify(settled(other)));
      assert.equal(buildKey(one) === buildKey(other), isSame);
    }),
    { numRuns: 500 },
  );
});

const layer = (digest: string): InjectedLayer => ({
  gzipDigest: digest as Digest,
  gzipSize: 1,
  tarDigest: digest as Digest,
});

/** Returns the values of a canonical text, parsed by its numbers alone. */
function readBack(document: string): { version: string; fields: CanonicalField[] } {
  const bytes = Buffer.from(document);
  let at = 0;
  const line = () => {
    const end = bytes.indexOf(0x0a, at);
    const text = bytes.toString('utf8', at, end);
    at = end + 1;
    return text;
  };
  const counted = (length: number) => {
    const text = bytes.toString('utf8', at, at + length);
    at += length + 1;
    return text;
  };
  const version = line();
  const fields: CanonicalField[] = [];
  while (at < bytes.length) {
    const [kind, name = '', number] = line().split(' ');
    const count = Number(number);
    if (kind === 'text') fields.push([name, counted(count)]);
    else fields.push([name, Array.from({ length: count }, () => counted(Number(line())))]);
  }
  assert.equal(at, bytes.length);
  return { version, fields };
}

test('no two sets of fields give the same text: each can be parsed back', () => {
  const texts = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc
      .array(fc.constantFrom('\n', 'text a 1', 'list b 2', '1', '0', 'x', ' '))
      .map(some => some.join('')),
  );
  const names = fc.constantFrom('a', 'b', 'name', 'package');
  const fields = fc.array(fc.tuple(names, fc.oneof(texts, fc.array(texts))));
  fc.assert(
    fc.property(fields, list => {
      const document = canonicalDocument('sluice-build-1', list);
      assert.deepEqual(readBack(document), { version: 'sluice-build-1', fields: list });
    }),
    { numRuns: 1000 },
  );
});

test('adjacent values cannot run together', () => {
  const keyOf = (packages: string[], pip: string[]) =>
    buildKey({
      repository: 'r.example.com/a',
      platforms: [],
      source: {
        kind: 'conda',
        wanted: { form: 'environment', packages, pip, variables: [] },
        channels: ['a'],
        options: { mambaImage: 'm', baseImage: 'b', basePackages: [], commands: [] },
      },
    });
  const keys = [
    keyOf(['a', 'b'], []),
    keyOf(['ab'], []),
    keyOf(['a'], ['b']),
    keyOf([], ['a', 'b']),
    keyOf(['a\nb'], []),
    keyOf(['a\n1\nb'], []),
    keyOf(['a', ''], []),
    keyOf(['a', '', ''], []),
  ];
  assert.equal(new Set(keys).size, keys.length);
});

test('the order and repetition of packages and platforms do not change the key', () => {
  const packages = ['samtools=1.20', 'bwa', 'numpy>=1.20', 'conda-forge::r-base', 'pip:b', 'pip:a'];
  const isForPip = (entry: string) => entry.startsWith('pip:');
  const keyOf = (entries: readonly string[], platforms: readonly string[]) => {
    const source = readBuildSource({ packages: { type: 'CONDA', entries } });
    return buildKey({ source, platforms, repository: 'r.example.com/a' });
  };
  const expected = keyOf(packages, ['linux/amd64', 'linux/arm64']);
  const shuffled = fc.shuffledSubarray(packages, { minLength: packages.length });
  fc.assert(
    fc.property(shuffled, fc.subarray(packages), fc.boolean(), (order, more, isTurned) => {
      const conda = [...order, ...more].filter(entry => !isForPip(entry));
      const platforms = ['linux/amd64', 'linux/arm64', 'linux/amd64'];
      if (isTurned) platforms.reverse().pop();
      assert.equal(keyOf([...packages.filter(isForPip), ...conda], platforms), expected);
      const isPipInOrder = order.indexOf('pip:b') < order.indexOf('pip:a');
      assert.equal(keyOf(order, platforms) === expected, isPipInOrder);
    }),
  );
});

/** Every member, each with another value. */
const changes: readonly [what: string, change: (identity: BuildIdentity) => BuildIdentity][] = [
  ['repository', identity => ({ ...identity, repository: 'other.example.com/x' })],
  ['platform', identity => ({ ...identity, platforms: [...identity.platforms, 'linux/riscv64'] })],
  ['format', identity => ({ ...identity, format: identity.format === 'sif' ? 'docker' : 'sif' })],
  [
    'strategy',
    identity => ({
      ...identity,
      nameStrategy: identity.nameStrategy === 'none' ? 'imageSuffix' : 'none',
    }),
  ],
  ['context', identity => ({ ...identity, contextDigest: `${identity.contextDigest ?? ''}x` })],
  [
    'entrypoint',
    identity =>
      frozen(identity, { entrypoint: [...(identity.frozenConfig?.entrypoint ?? []), 'x'] }),
  ],
  ['empty cmd', identity => frozen(identity, { cmd: identity.frozenConfig?.cmd ? undefined : [] })],
  ['env', identity => frozen(identity, { env: [...(identity.frozenConfig?.env ?? []), 'A=1'] })],
  [
    'working directory',
    identity => frozen(identity, { workingDir: `${identity.frozenConfig?.workingDir ?? ''}/` }),
  ],
  [
    'layer',
    identity =>
      frozen(identity, {
        layers: [...(identity.frozenConfig?.layers ?? []), layer('sha256:0')],
      }),
  ],
  [
    'architecture of a layer',
    identity => frozen(identity, { layers: [{ ...layer('sha256:0'), architecture: 'new' }] }),
  ],
  ['option', identity => ({ ...identity, options: { ...identity.options, new: 'x' } })],
  ['source', identity => ({ ...identity, source: { kind: 'dockerfile', text: 'FROM new\n' } })],
  [
    'something in the source',
    ({ source, ...identity }) => ({ ...identity, source: changed(source) }),
  ],
];

function frozen(identity: BuildIdentity, more: BuildIdentity['frozenConfig']): BuildIdentity {
  return { ...identity, frozenConfig: { ...identity.frozenConfig, ...more } };
}

function changed(source: BuildIdentity['source']): BuildIdentity['source'] {
  if ('text' in source) return { ...source, text: `${source.text} ` };
  if ('digest' in source) return { ...source, digest: `${source.digest}x` };
  const more = ['echo changed'];
  return source.kind === 'cran'
    ? { ...source, options: { ...source.options, basePackages: more } }
    : { ...source, options: { ...source.options, basePackages: more } };
}

for (const [what, change] of changes) {
  test(`the key changes with the ${what}`, () => {
    fc.assert(
      fc.property(identities, identity => {
        assert.notEqual(buildKey(change(identity)), buildKey(identity));
      }),
      { numRuns: 50 },
    );
  });
}

test('every member of a Conda source changes the key', () => {
  const source = readBuildSource({
    packages: { type: 'CONDA', entries: ['a', 'pip:b'], condaOpts: { commands: ['true'] } },
  });
  assert.ok(source.kind === 'conda' && source.wanted.form === 'environment');
  const { wanted, options } = source;
  const variants: BuildIdentity['source'][] = [
    source,
    { ...source, channels: [...source.channels].reverse() },
    { ...source, wanted: { ...wanted, name: 'x' } },
    { ...source, wanted: { ...wanted, packages: ['a=1'] } },
    { ...source, wanted: { ...wanted, pip: ['b', 'c'] } },
    { ...source, wanted: { ...wanted, pip: ['c', 'b'] } },
    { ...source, wanted: { ...wanted, variables: ['A=1'] } },
    { ...source, wanted: { form: 'lock', urls: ['a'], pip: [] } },
    { ...source, wanted: { form: 'lock', urls: ['a'], sha256s: ['b'], pip: [] } },
    { ...source, wanted: { form: 'lock', urls: [], pip: ['a'] } },
    { ...source, wanted: { form: 'lockUrl', url: 'a' } },
    ...[
      [{ subdir: 'x', urls: ['a'], pip: [] }],
      [{ subdir: 'x', urls: ['a'], sha256s: ['b'], pip: [] }],
      [{ subdir: 'y', urls: ['a'], pip: [] }],
      [{ subdir: 'x', urls: [], pip: ['a'] }],
      [
        { subdir: 'x', urls: ['a'], pip: [] },
        { subdir: 'y', urls: [], pip: [] },
      ],
      [
        { subdir: 'x', urls: [], pip: [] },
        { subdir: 'y', urls: ['a'], pip: [] },
      ],
    ].map(platforms => ({ ...source, wanted: { form: 'locks' as const, platforms } })),
    { ...source, options: { ...options, mambaImage: 'x' } },
    { ...source, options: { ...options, baseImage: 'x' } },
    { ...source, options: { ...options, basePackages: [] } },
    { ...source, options: { ...options, commands: [] } },
    { ...source, options: { ...options, commands: ['RUN true', 'RUN x'] } },
    { ...source, options: { ...options, commands: ['RUN x', 'RUN true'] } },
  ];
  const keys = variants.map(variant =>
    buildKey({ source: variant, platforms: ['linux/amd64'], repository: 'r.example.com/a' }),
  );
  assert.equal(new Set(keys).size, keys.length);
});

test('all spellings of a repository have one key', () => {
  const keyOf = (repository: string) =>
    buildKey({ source: { kind: 'dockerfile', text: 'FROM a' }, platforms: [], repository });
  assert.equal(keyOf('team/build'), keyOf('index.docker.io/team/build'));
  assert.notEqual(keyOf('team/build'), keyOf('team/builds'));
});

test('texts that UTF-8 cannot encode are refused, because all of them would be equal', () => {
  const identity = { platforms: [], repository: 'r.example.com/a' };
  const source = { kind: 'dockerfile', text: 'FROM \ud800' } as const;
  assert.throws(() => buildKey({ ...identity, source }), Fault);
});

test('the text of a build has every field under its name, in the order of docs/build-key.md', () => {
  const digest = `sha256:${'0'.repeat(64)}`;
  const layers = [layer(digest), { ...layer(digest), architecture: 'arm64' }];
  const written = canonicalText({
    repository: 'r.example.com/a',
    platforms: ['linux/arm64', 'linux/amd64'],
    source: { kind: 'dockerfile', text: 'FROM a' },
    contextDigest: digest,
    frozenConfig: {
      onTopOf: { cmd: ['before'] },
      ...{ entrypoint: ['e'], cmd: ['c'], env: ['A=1'], workingDir: '/w', layers },
    },
    options: { 'label:b': '2', 'label:a': '1' },
  });
  assert.deepEqual(readBack(written), {
    version: 'sluice-build-1',
    fields: [
      ['repository', 'r.example.com/a'],
      ['platform', ['linux/amd64', 'linux/arm64']],
      ['format', 'docker'],
      ['nameStrategy', 'tagPrefix'],
      ['context', digest],
      ['containerFile', 'FROM a'],
      ['onTopOf', 'change\nlist cmd 1\n6\nbefore\n'],
      ['entrypoint', ['e']],
      ['cmd', ['c']],
      ['env', ['A=1']],
      ['workingDir', '/w'],
      ['layer', [digest, `${digest} arm64`]],
      ['option', ['label:a=1', 'label:b=2']],
    ],
  });
});

test('the name of an option contains no =', () => {
  const source = { kind: 'dockerfile', text: 'FROM a' } as const;
  const options = { 'a=b': 'c' };
  assert.throws(
    () => buildKey({ source, platforms: [], repository: 'r.example.com/a', options }),
    RangeError,
  );
});

/** Returns the identity with equal values in one spelling. */
function settled(identity: BuildIdentity): unknown {
  const { source, repository, nameStrategy = 'tagPrefix', format = 'docker' } = identity;
  const { entrypoint, cmd, env = [], workingDir, layers = [] } = identity.frozenConfig ?? {};
  return [
    source.kind === 'conda'
      ? [source.wanted, source.channels, Object.entries(source.options).sort()]
      : source.kind === 'cran'
        ? [source.wanted, source.repositories, Object.entries(source.options).sort()]
        : source.kind === 'image'
          ? [source.digest]
          : source.text,
    [...new Set(identity.platforms)].sort(),
    repository,
    nameStrategy,
    format,
    identity.contextDigest,
    [
      entrypoint,
      cmd,
      env,
      workingDir,
      layers.map(({ gzipDigest, architecture }) => [gzipDigest, architecture]),
    ],
    Object.entries(identity.options ?? {}).sort(),
  ];
}

const page = readFileSync(join(import.meta.dirname, '../../docs/build-key.md'), 'utf8');
const scripts = [...page.matchAll(/```sh\n(.*?)```/gs)].map(([, script = '']) => script);
const keys = [...page.matchAll(/^The key is `([^`]+)`, and the image\s+`([^`]+)`\.$/gm)];
const repository = 'registry.example.com/team/build';
const examples: readonly BuildIdentity[] = [
  {
    repository,
    platforms: ['linux/amd64'],
    source: readBuildSource({
      containerFile: Buffer.from('FROM alpine:3.20\nRUN apk add --no-cache curl\n').toString(
        'base64',
      ),
    }),
  },
  {
    repository,
    platforms: ['linux/arm64', 'linux/amd64'],
    source: readBuildSource({ packages: { type: 'CONDA', entries: ['samtools=1.20', 'bwa'] } }),
    maker: 'native',
  },
];

for (const [position, identity] of examples.entries()) {
  test(`docs/build-key.md: a shell and the code agree on example ${position + 1}`, () => {
    const [, key = '', name = ''] = keys[position] ?? [];
    const printed = execFileSync('/bin/sh', ['-c', scripts[position] ?? 'exit 1'], {
      encoding: 'utf8',
    });
    assert.equal(buildKey(identity), printed.trim());
    assert.equal(key, printed.trim());
    assert.equal(imageName({ repository, key, source: identity.source }), name);
  });
}

test('docs/build-key.md has an example for each source', () => {
  assert.equal(scripts.length, examples.length);
  assert.equal(keys.length, examples.length);
});
