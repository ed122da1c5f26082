/** What a wheel has goes to its places, and RECORD says what is there. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { makeTempDir, type TempDir } from '../../world/temp-dir.ts';
import { installByUs, wheelTree } from './judged-wheels.ts';
import { type MadeWheel, wheelOf } from './made-wheel.ts';

let directory: TempDir;
before(async () => {
  directory = await makeTempDir('install-wheel');
});
after(() => directory.remove());

const site = 'lib/python3.12/site-packages';
const python = { minorVersion: '3.12', sitePackages: site };
let count = 0;

async function install(made: MadeWheel, place: { prefix?: string; lostPaths?: string[] } = {}) {
  const { fileName, bytes } = wheelOf(made);
  writeFileSync(directory.join(fileName), bytes);
  count += 1;
  const root = directory.join(`root-${count}`);
  const where = { prefix: '/opt/conda', python, ...place };
  const installed = await installByUs(directory.join(fileName), root, where);
  const prefix = join(root, where.prefix);
  const text = (path: string) => readFileSync(join(prefix, path), 'utf8');
  const mode = (path: string) => statSync(join(prefix, path)).mode & 0o7777;
  return { ...installed, prefix, text, mode };
}

const shapes: MadeWheel = {
  name: 'Made.Thing',
  version: '1.0',
  entryPoints: `# programs
[console_scripts]
made = made.cli:main.run [extra]
made-gui=made:gui
[gui_scripts]
made-gui = made:gui
[other]
not = a program
`,
  metadata: [
    'Summary: Things',
    'License-Expression: MIT',
    'Classifier: License :: OSI Approved :: MIT License',
    'Classifier: Topic :: Other',
    'Project-URL: Homepage, https://made.example.org',
    'Requires-Dist: six (>=1.0)',
    'Requires-Dist: numpy; python_version < "4"',
  ].join('\n'),
  members: [
    { name: 'made/__init__.py', content: 'x = 1\n', isDeflated: true },
    { name: 'made/program', content: 'binary', mode: 0o100775 },
    { name: 'made/empty/', mode: 0o040755 },
    { name: 'made/naïve, "file".txt', content: 'text' },
    { name: 'Made.Thing-1.0.data/purelib/pure.py', content: 'pure' },
    { name: 'Made.Thing-1.0.data/platlib/plat.so', content: 'plat' },
    { name: 'Made.Thing-1.0.data/headers/made.h', content: '#define MADE' },
    { name: 'Made.Thing-1.0.data/data/share/made/data', content: 'data' },
    { name: 'Made.Thing-1.0.data/scripts/tool', content: '#!python -u\r\nprint(1)\n' },
    { name: 'Made.Thing-1.0.data/scripts/versioned', content: '#!python3\nprint(1)' },
    { name: 'Made.Thing-1.0.data/scripts/shell', content: '#!/bin/sh\necho\n' },
    { name: 'Made.Thing-1.0.data/scripts/made', content: '#!python\nan entry point replaces it' },
  ],
};

test('files, data, scripts and programs are in their places, with modes and RECORD', async () => {
  const { text, mode, prefix, metadata, warnings, paths } = await install(shapes);
  const info = `${site}/Made.Thing-1.0.dist-info`;
  assert.deepEqual(warnings, []);
  assert.equal(text(`${site}/pure.py`), 'pure');
  assert.equal(text(`${site}/plat.so`), 'plat');
  assert.equal(text('include/python3.12/made-thing/made.h'), '#define MADE');
  assert.equal(text('share/made/data'), 'data');
  assert.equal(text('bin/tool'), '#!/opt/conda/bin/python3.12 -u\nprint(1)\n');
  assert.equal(text('bin/versioned'), '#!/opt/conda/bin/python3.12\nprint(1)');
  assert.equal(text('bin/shell'), '#!/bin/sh\necho\n');
  assert.match(
    text('bin/made'),
    /^#!\/opt\/conda\/bin\/python3\.12\n.*from made\.cli import main\n/s,
  );
  assert.match(text('bin/made'), /sys\.exit\(main\.run\(\)\)/);
  assert.match(text('bin/made-gui'), /from made import gui/);
  assert.equal(text(`${info}/INSTALLER`), 'sluice');
  assert.equal(text(`${info}/REQUESTED`), '');
  for (const path of ['bin/tool', 'bin/shell', 'bin/made', `${site}/made/program`]) {
    assert.equal(mode(path), 0o755, path);
  }
  for (const path of [`${site}/made/__init__.py`, 'share/made/data', `${info}/RECORD`]) {
    assert.equal(mode(path), 0o644, path);
  }
  assert.equal(mode(`${site}/made/empty`), 0o755);
  const lines = text(`${info}/RECORD`).trim().split('\n');
  const plain = lines.filter(line => !line.startsWith('"'));
  assert.deepEqual(plain, plain.toSorted());
  const digest = createHash('sha256').update(text('bin/tool')).digest('base64url');
  assert.ok(lines.includes(`../../../bin/tool,sha256=${digest},${text('bin/tool').length}`));
  assert.ok(lines.some(line => line.startsWith('"made/naïve, ""file"".txt",sha256=')));
  assert.ok(lines.includes('Made.Thing-1.0.dist-info/RECORD,,'));
  const files = Object.entries(wheelTree(prefix, 'uv')).filter(([, what]) =>
    what.startsWith('file'),
  );
  const names = files.map(([path]) => path);
  for (const name of ['INSTALLER', 'RECORD', 'REQUESTED']) names.push(`${info}/${name}`);
  assert.equal(lines.length, names.length);
  assert.deepEqual([...paths].sort(), names.sort());
  assert.deepEqual(
    {
      ...{ name: 'Made.Thing', version: '1.0', summary: 'Things', licenseExpression: 'MIT' },
      license: undefined,
      licenseClassifiers: ['License :: OSI Approved :: MIT License'],
      homePage: 'https://made.example.org',
      requiresPython: undefined,
      requiresDist: ['six (>=1.0)', 'numpy; python_version < "4"'],
    },
    metadata,
  );
});

test('the same wheel gives the same bytes, whenever and from wherever', async () => {
  const [one, two] = [await install(shapes), await install(shapes)];
  assert.deepEqual(one.tar, two.tar);
  // A change means other digests of images: increase `layerVersion` of wheels, and say so in the change log.
  assert.equal(createHash('sha256').update(one.tar).digest('hex').slice(0, 16), 'fa09d44c74b89b08');
});

test('what differs from RECORD is installed, reported, and recorded as it is', async () => {
  const { text, warnings } = await install({
    members: ['right', 'wrong', 'short', 'unknown', 'weak'].map(name => ({
      ...{ name: `${name}.py`, content: name },
    })),
    record: right =>
      right
        .replace(/^wrong\.py,sha256=.*$/m, `wrong.py,sha256=${'A'.repeat(43)},5`)
        .replace(/^short\.py,(.*),5$/m, 'short.py,$1,4')
        .replace(/^unknown.*\n/m, 'gone.py,sha256=AAAA,4\n')
        .replace(/^weak\.py.*$/m, 'weak.py,md5=AAAA,4'),
  });
  assert.deepEqual(warnings, [
    'RECORD lists "gone.py", which is not there',
    'RECORD has another digest or size of "short.py" than the file',
    'RECORD has no digest of "unknown.py"',
    'RECORD has another digest or size of "weak.py" than the file',
    'RECORD has another digest or size of "wrong.py" than the file',
  ]);
  const record = text(`${site}/made-1.0.dist-info/RECORD`);
  const digest = createHash('sha256').update('wrong').digest('base64url');
  assert.match(record, new RegExp(`^wrong\\.py,sha256=${digest},5$`, 'm'));
  assert.match(record, /^unknown\.py,sha256=/m);
  assert.doesNotMatch(record, /gone\.py/);
});

test('RECORD may have other digests, absolute paths, and lines of Windows', async () => {
  const content = 'content';
  const digest = createHash('sha512').update(content).digest('base64url');
  const { warnings, text } = await install({
    members: [
      { name: 'strong.py', content },
      { name: 'absolute.py', content },
    ],
    record: right =>
      right
        .replace(/^strong\.py.*$/m, `strong.py,sha512=${digest}==,7`)
        .replace(/^absolute/m, '/absolute')
        .replaceAll('\n', '\r\n'),
  });
  assert.deepEqual(warnings, []);
  assert.match(text(`${site}/made-1.0.dist-info/RECORD`), /^strong\.py,sha512=.{86},7$/m);
});

test('a wheel leaves out what wheels that are installed later have also', async () => {
  const members = [
    { name: 'tests/__init__.py', content: 'made' },
    { name: 'made.py', content: 'made' },
  ];
  const lostPaths = [`${site}/tests/__init__.py`];
  const { prefix, paths, text } = await install({ members }, { lostPaths });
  assert.deepEqual(
    Object.keys(wheelTree(prefix, 'uv')).filter(path => path.includes('tests')),
    [],
  );
  assert.ok(!paths.includes(`${site}/tests/__init__.py`));
  assert.match(text(`${site}/made-1.0.dist-info/RECORD`), /^tests\/__init__\.py,sha256=/m);
});

test('versions are compared in all their spellings', async () => {
  for (const [own, wanted] of [
    ['1.0.0', '1.0'],
    ['1.0-1', '1.0.post1'],
    ['1.0RC1', '1.0rc1'],
    ['1.0.alpha.2', '1.0a2'],
    ['2024.01.02', '2024.1.2'],
    ['1.0', '1.0+cpu'],
    ['1.0+CPU_1', '1.0+cpu.1'],
  ] as const) {
    const { bytes } = wheelOf({ version: own });
    const path = directory.join(`made-${wanted.replaceAll('-', '_')}-py3-none-any.whl`);
    writeFileSync(path, bytes);
    const { metadata } = await installByUs(path, directory.join(`version-${wanted}`), {
      ...{ prefix: '/opt/conda', python },
    });
    assert.equal(metadata.version, own);
  }
});
