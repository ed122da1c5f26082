import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { CondaSource } from '../../src/builds/recipe/conda/conda-source.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import type { SubmittedBuild } from '../../src/builds/recipe/submitted.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { codePoint } from '../world/code-points.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const packages = (more: object): SubmittedBuild => ({ packages: { type: 'CONDA', ...more } });
const entries = (...list: string[]) => packages({ entries: list });
const environment = (text: string) => packages({ environment: base64(text) });
const options = (condaOpts: object) => packages({ entries: ['bwa'], condaOpts });
const environmentOf = (submitted: SubmittedBuild) => {
  const source = readBuildSource(submitted);
  assert.ok(source.kind === 'conda' && source.wanted.form === 'environment');
  return { ...source.wanted, channels: source.channels };
};

/** What is refused, and what the message has to say: the field, and what to do. */
const refused: readonly [what: string, submitted: SubmittedBuild, message: RegExp][] = [
  ['nothing', {}, /nothing to build.*'containerFile', 'packages'/],
  [
    'a Dockerfile and packages',
    { containerFile: 'YQ==', condaFile: 'YQ==', packages: {} },
    /'containerFile' and 'packages' exclude/,
  ],
  ['spackFile', { spackFile: 'YQ==' }, /'spackFile': Spack is deprecated.*with the type CONDA/],
  [
    'spack type',
    { packages: { type: 'SPACK', entries: ['a'] } },
    /'packages\.type': Spack is deprecated/,
  ],
  ['no type', { packages: { entries: ['a'] } }, /'packages\.type' is missing: write CONDA/],
  [
    'another type',
    { packages: { type: 'PIP', entries: ['a'] } },
    /'packages\.type': 'PIP' is not known: write CONDA, or CRAN/,
  ],
  [
    'environment and entries',
    packages({ entries: ['a'], environment: 'YQ==' }),
    /'packages\.environment' and 'packages\.entries' exclude/,
  ],
  ['no packages', packages({}), /'packages' does not name a package/],
  ['an empty list', entries(), /'packages' does not name a package/],
  ['an empty entry', entries('bwa', ' '), /'packages\.entries\[1\]' is empty/],
  ['base64 with line breaks', { condaFile: 'YWJj\nYWJj' }, /'condaFile' is not base64/],
  ['URL-safe base64', { containerFile: '_-8=' }, /'containerFile' is not base64/],
  ['an empty file', { containerFile: '' }, /'containerFile' is empty/],
  ['a blank file', { containerFile: base64(' \n') }, /'containerFile' is empty/],
  ['not UTF-8', { containerFile: '//8=' }, /'containerFile' is not UTF-8/],
  ['NUL', { containerFile: base64('FROM a\0') }, /'containerFile' contains a NUL/],
  ['too large', { containerFile: 'A'.repeat(2 ** 20 + 4) }, /'containerFile' is longer than/],
  [
    'broken YAML',
    environment('dependencies: [a\nb: c'),
    /'packages\.environment' is not a YAML file that can be read: line \d: /,
  ],
  [
    'a YAML bomb',
    environment(
      `a: &a [x,x,x,x,x,x,x,x,x]\n${[...'bcdefghij'].map((name, at) => `${name}: &${name} [${`*${'abcdefghi'[at]},`.repeat(9)}]`).join('\n')}\ndependencies: *j`,
    ),
    /'packages\.environment' is not a YAML file that can be read/,
  ],
  [
    'endless nesting',
    environment('['.repeat(100_000)),
    /'packages\.environment' has lists or mappings nested too deep/,
  ],
  ['a list as a key', environment('? [b]\n: c'), /: a key is not a text/],
  ['no mapping', environment('- bwa'), /not a conda environment file/],
  ['two documents', environment('dependencies: [a]\n---\ndependencies: [b]'), /is not a YAML file/],
  ['no dependencies', environment('name: x'), /has no list 'dependencies'/],
  ['dependencies that are a text', environment('dependencies: bwa'), /has no list 'dependencies'/],
  [
    'a number',
    environment('dependencies: [bwa, 3.9]'),
    /dependencies\[1\]' is number '3\.9': write a package, in quotes/,
  ],
  ['a nested list', environment('dependencies: [[bwa]]'), /dependencies\[0\]' is a list/],
  [
    'an unknown selector',
    environment('dependencies: [{"sel(beos)": bwa}]'),
    /dependencies\[0\]' is a mapping \(sel\(beos\)\)/,
  ],
  [
    'pip as a text',
    environment('dependencies: [{pip: flask}]'),
    /dependencies\[0\]\.pip' is a text: write a list/,
  ],
  ['nothing but an empty pip section', environment('dependencies: [{pip: }]'), /names no package/],
  ['nothing but an empty pip list', environment('dependencies: [{pip: []}]'), /names no package/],
  [
    'a number for pip',
    environment('dependencies: [{pip: [1]}]'),
    /dependencies\[0\]\.pip\[0\]' is number/,
  ],
  [
    'channels as a text',
    environment('channels: a\ndependencies: [a]'),
    /channels' is a text: write a list/,
  ],
  [
    'a variable with a list',
    environment('dependencies: [a]\nvariables: {A: [1]}'),
    /variables\.A' is a list/,
  ],
  [
    'a bad variable name',
    environment('dependencies: [a]\nvariables: {"A B": 1}'),
    /'A B' is not a name/,
  ],
  ['a name that is a number', environment('name: 1\ndependencies: [a]'), /name' is number '1'/],
  [
    'a conda-lock file without a package',
    environment('version: 1\nmetadata: {}\npackage: []'),
    /locks no package for linux-64/,
  ],
  ['pip::', entries('pip::numpy'), /write 'pip:numpy', with one colon/],
  ['pip with nothing', entries('pip:'), /'packages\.entries\[0\]' is empty/],
  [
    'pip with a file',
    entries('pip:-r requirements.txt'),
    /requires a file that the request does not have/,
  ],
  ['pip with a path', entries('pip:-e ./here'), /requires a file that the request does not have/],
  [
    'pip with a password',
    entries('pip:--index-url https://a:b@pypi.example.com/'),
    /contains credentials.*remove them/,
  ],
  [
    'a lock file among others',
    entries('bwa', 'https://x.example.com/conda.lock'),
    /a lock file must be the only item/,
  ],
  [
    'a git repository as lock file',
    entries('https://x.example.com/a.git'),
    /is a git repository: write/,
  ],
  [
    'a lock file by ftp',
    entries('ftp://x.example.com/conda.lock'),
    /a lock file must be the only item/,
  ],
  [
    'a lock file that locks nothing',
    entries('@EXPLICIT\n'),
    /'packages\.entries' locks no package/,
  ],
  [
    'a package above @EXPLICIT',
    entries('https://x.example.com/a-1-0.conda\n@EXPLICIT'),
    /line 1'.*comes before @EXPLICIT/,
  ],
  ['a specification in a lock file', entries('@EXPLICIT\nbwa'), /line 2': 'bwa'/],
  [
    'a bad checksum',
    entries('@EXPLICIT\nhttps://x.example.com/a-1-0.conda#12'),
    /line 2': '#12' is not a checksum: write/,
  ],
  [
    'a channel with a blank',
    packages({ entries: ['a'], channels: ['a b'] }),
    /'packages\.channels\[0\]': 'a b' is not a conda channel/,
  ],
  [
    'a channel with a token',
    packages({ entries: ['a'], channels: ['https://conda.example.com/t/abc/x'] }),
    /contains a token/,
  ],
  [
    'a channel with a password',
    packages({ entries: ['a'], channels: ['https://me@conda.example.com/x'] }),
    /contains credentials/,
  ],
  [
    'a channel by another way',
    packages({ entries: ['a'], channels: ['gopher://x/y'] }),
    /is not a http or https/,
  ],
  [
    'an image with blanks',
    options({ mambaImage: 'a b' }),
    /'packages\.condaOpts\.mambaImage': Invalid image name 'a b': /,
  ],
  [
    'an image in capital letters',
    options({ baseImage: 'Ubuntu' }),
    /'packages\.condaOpts\.baseImage': .*lower case/,
  ],
  ['scratch', options({ baseImage: 'scratch' }), /an image with a C library/],
  ['an empty image', options({ baseImage: '' }), /'packages\.condaOpts\.baseImage' is empty/],
  [
    'base packages that are options',
    options({ basePackages: '--root-prefix=/x' }),
    /'packages\.condaOpts\.basePackages': '--root-prefix=\/x' is not a conda package/,
  ],
  [
    'a command that copies',
    options({ commands: ['COPY a b'] }),
    /commands\[0\]': COPY is not possible here: use 'containerFile'/,
  ],
  [
    'a command that ends in a backslash',
    options({ commands: ['echo \\'] }),
    /commands\[0\]' ends in a backslash/,
  ],
  ['a command of two lines', options({ commands: ['a\nb'] }), /commands\[0\]'.*line break/],
  [
    'an endless command',
    options({ commands: ['a'.repeat(9000)] }),
    /commands\[0\]' is longer than/,
  ],
];

for (const [what, submitted, message] of refused) {
  test(`refused: ${what}`, () => {
    assert.throws(
      () => readBuildSource(submitted),
      (error: unknown) => {
        assert.ok(error instanceof Fault, String(error));
        assert.equal(error.kind, 'bad-request');
        assert.equal(error.phase, 'request');
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /[\n\0]/);
        return true;
      },
    );
  });
}

test('a text that could break out of its place is not accepted as a package, channel or image', () => {
  const harm = [
    'a\nb',
    'a\rb',
    "a'b",
    'a"b',
    'a`id`',
    'a$(id)',
    'a;id',
    'a|id&',
    'a\\',
    'a\u2028b',
    'a\u0085',
    'a\ud800',
    '$HOME',
    'a #b',
    'a\0',
  ];
  const places: ((text: string) => SubmittedBuild)[] = [
    text => entries(text),
    text => entries('bwa', text),
    text => packages({ entries: ['bwa'], channels: [text] }),
    text => options({ mambaImage: text }),
    text => options({ baseImage: text }),
    text => environment(JSON.stringify({ dependencies: [text] })),
    text => environment(JSON.stringify({ dependencies: ['bwa'], channels: [text] })),
    text => entries(`@EXPLICIT\nhttps://x.example.com/a-1-${text}.conda`),
    text => entries(`https://x.example.com/lock?${text}`),
  ];
  for (const text of ['-f', '--file', '..']) {
    assert.throws(() => readBuildSource(entries(text)), Fault);
    assert.throws(() => readBuildSource(packages({ entries: ['a'], channels: [text] })), Fault);
  }
  for (const place of places) {
    for (const text of harm) {
      assert.throws(() => readBuildSource(place(text)), Fault, JSON.stringify(place(text)));
    }
  }
});

test('a Dockerfile is used unchanged', () => {
  const text = '\ufeff# escape=`\r\nFROM a\r\n\r\n';
  assert.deepEqual(readBuildSource({ containerFile: base64(text) }), {
    kind: 'dockerfile',
    text,
  });
});

test('packages are sorted and unique, without quotes and repeated spaces', () => {
  const { packages: list, channels } = environmentOf(
    entries(' samtools=1.20', "'numpy>=1.20'", '"bwa  0.7.17"', 'samtools=1.20'),
  );
  assert.deepEqual(list, ['bwa 0.7.17', 'numpy>=1.20', 'samtools=1.20']);
  assert.deepEqual(channels, ['conda-forge', 'bioconda']);
});

test('pip requirements keep their order, in a list and in a file', () => {
  assert.deepEqual(environmentOf(entries('pip:b', 'bwa', "'pip:a==1'")).pip, ['b', 'a==1']);
  const file = environmentOf(environment('dependencies: [{pip: [b, a]}, bwa, {pip: [c]}]'));
  assert.deepEqual(file.pip, ['b', 'a', 'c']);
  assert.deepEqual(file.packages, ['bwa']);
});

test('channels: those of the file first, each once, without nodefaults; otherwise the default channels', () => {
  const file = base64('channels: [b, nodefaults, a]\ndependencies: [x]');
  const channelsOf = (submitted: SubmittedBuild) => environmentOf(submitted).channels;
  assert.deepEqual(channelsOf(packages({ environment: file, channels: ['c', 'a'] })), [
    'b',
    'a',
    'c',
  ]);
  const none = base64('channels: [nodefaults]\ndependencies: [x]');
  assert.deepEqual(channelsOf({ condaFile: none }), ['conda-forge', 'bioconda']);
  assert.deepEqual(channelsOf(packages({ entries: ['x'], channels: [] })), [
    'conda-forge',
    'bioconda',
  ]);
});

test('a lock file is recognised by its content, or if it is the only address', () => {
  const wanted = (submitted: SubmittedBuild) => (readBuildSource(submitted) as CondaSource).wanted;
  const url = 'https://x.example.com/linux-64/a-1-0.conda';
  const content = `# by hand\r\n@EXPLICIT\r\n${url}\r\n\r\n# pip b==1\r\n`;
  const lock = { form: 'lock', urls: [url], pip: ['b==1'] };
  assert.deepEqual(wanted(entries(content)), lock);
  assert.deepEqual(wanted(entries(...content.split('\r\n').filter(line => line !== ''))), lock);
  assert.deepEqual(wanted({ condaFile: base64(content) }), lock);
  assert.deepEqual(wanted(environment(content)), lock);
  const address = 'https://x.example.com/conda-linux-64.lock';
  assert.deepEqual(wanted(entries(address)), { form: 'lockUrl', url: address });
  assert.equal(wanted(entries(url)).form, 'environment');
});

test('images get their full names and defaults', () => {
  const optionsOf = (condaOpts?: object) =>
    (readBuildSource(packages({ entries: ['bwa'], condaOpts })) as CondaSource).options;
  assert.deepEqual(optionsOf(), {
    mambaImage: 'docker.io/mambaorg/micromamba:1.5.10-noble',
    baseImage: 'docker.io/library/ubuntu:24.04',
    basePackages: ['conda-forge::procps-ng'],
    commands: [],
  });
  const pixiOpts = { baseImage: 'debian', basePackages: 'a' };
  const ofPixi = readBuildSource(packages({ entries: ['bwa'], pixiOpts })) as CondaSource;
  assert.equal(ofPixi.options.baseImage, 'docker.io/library/debian:latest');
  assert.deepEqual(ofPixi.options.basePackages, ['a']);
  const { mambaImage, basePackages } = optionsOf({ mambaImage: 'a/b', basePackages: 'z a\tz' });
  assert.equal(mambaImage, 'docker.io/a/b:latest');
  assert.deepEqual(basePackages, ['a', 'z']);
});

test('any source is read or refused with a sentence', () => {
  const texts = fc.oneof(
    fc.string({ unit: codePoint }),
    fc
      .array(
        fc.constantFrom(
          'a',
          '=',
          '::',
          '\n',
          '@EXPLICIT',
          '#',
          'https://',
          '.conda',
          '[',
          "'",
          ' ',
          '-',
          ':',
          '{',
          'pip',
          'dependencies:',
        ),
      )
      .map(some => some.join('')),
  );
  const optional = <T>(some: fc.Arbitrary<T>) => fc.option(some, { nil: undefined });
  const submissions = fc.record({
    condaFile: optional(texts.map(base64)),
    packages: optional(
      fc.record({
        type: fc.constant('CONDA'),
        environment: optional(texts.map(text => base64(`dependencies:\n- ${text}`))),
        entries: optional(fc.array(texts)),
        channels: optional(fc.array(texts)),
        condaOpts: optional(fc.record({ commands: fc.array(texts), basePackages: texts })),
      }),
    ),
  });
  fc.assert(
    fc.property(submissions, submitted => {
      try {
        const source = readBuildSource(submitted);
        assert.equal(source.kind, 'conda');
      } catch (error) {
        assert.ok(error instanceof Fault, String((error as Error).stack));
      }
    }),
    { numRuns: 300 },
  );
});
