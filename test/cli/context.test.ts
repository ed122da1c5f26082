/** The files of a directory that are sent as a build context. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, link, mkdir, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { CommandError } from '../../src/cli/command/command.ts';
import { measureDirectory } from '../../src/cli/containers/print-name.ts';
import {
  contextAdvice,
  contextDirectory,
  contextFiles,
  packContext,
  readIgnoreFile,
} from '../../src/cli/containers/source/packed-context.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

test('a .dockerignore is parsed as a builder parses it', () => {
  const text =
    '\ufeff# comment\r\n  # not one\n\n./a/\n/b\n  c/../d  \n! e\n!/f/\n**/g\n/\n.\n\t\n#h';
  assert.deepEqual(readIgnoreFile(text), [
    '# not one',
    'a',
    'b',
    'd',
    '!e',
    '!f',
    '**/g',
    '/',
    '.',
  ]);
});

async function fill(directory: TempDir, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(directory.join(path)), { recursive: true });
    await writeFile(directory.join(path), content);
  }
}

const tree = {
  Dockerfile: 'FROM scratch',
  'README.md': 'readme',
  'docs/README.md': 'readme',
  'docs/deep/a.log': 'log',
  'src/a.ts': 'a',
  'src/a.test.ts': 'test',
  'src/deep/b.ts': 'b',
  'node_modules/x/index.js': 'x',
};

// The files of the tree above that Docker sends, without its two own files.
const cases: readonly [ignored: string, sent: readonly string[]][] = [
  ['', Object.keys(tree)],
  ['*', []],
  ['*\n!src', ['src/a.test.ts', 'src/a.ts', 'src/deep/b.ts']],
  ['*\n!src/deep/*.ts', ['src/deep/b.ts']],
  ['node_modules\n**/*.log\n*.md\n!README.md', Object.keys(tree).filter(keep(/node_mod|\.log/))],
  ['**/README.md\n!docs/README.md', Object.keys(tree).filter(keep(/^README/))],
  ['src\n!src/a.ts\nsrc/a*', Object.keys(tree).filter(keep(/^src/))],
  ['**/deep\nnode_modules/**', Object.keys(tree).filter(keep(/deep|node_mod/))],
];

function keep(without: RegExp): (path: string) => boolean {
  return path => !without.test(path);
}

for (const [ignored, sent] of cases) {
  test(`.dockerignore: ${JSON.stringify(ignored)}`, async () => {
    await using directory = await makeTempDir('context');
    await fill(directory, { ...tree, '.dockerignore': ignored });
    const { files } = await contextFiles(directory.path, undefined);
    const paths = files.filter(({ entry }) => entry.kind === 'file').map(({ path }) => path);
    assert.deepEqual(paths.filter(path => path !== '.dockerignore').sort(), [...sent].sort());
  });
}

test('the .dockerignore of a Dockerfile replaces the general one, which becomes an ordinary file', async () => {
  await using directory = await makeTempDir('context');
  await fill(directory, {
    ...{ a: 'a', b: 'b', 'other/Dockerfile': '', '.dockerignore': 'a' },
    'other/Dockerfile.dockerignore': 'b\nother',
  });
  const sent = async (dockerfile?: string) =>
    (await contextFiles(directory.path, dockerfile)).files.map(({ path }) => path);
  const dockerfile = directory.join('other/Dockerfile');
  assert.deepEqual(await sent(dockerfile), ['.dockerignore', 'a']);
  const packed = async (file?: string) => packContext(await contextDirectory(directory.path, file));
  assert.equal((await packed(dockerfile))?.isFiltered, true);
  assert.equal((await packed())?.isFiltered, undefined);
  assert.deepEqual(await sent(), [
    ...['.dockerignore', 'b', 'other', 'other/Dockerfile', 'other/Dockerfile.dockerignore'],
  ]);
});

test('the same files give the same bytes, and links stay links', async () => {
  const digests = await Promise.all(
    ['one', 'two'].map(async purpose => {
      await using directory = await makeTempDir(purpose);
      const files = Object.entries(tree);
      await fill(directory, Object.fromEntries(purpose === 'one' ? files : files.reverse()));
      await symlink('/nowhere', directory.join('link'));
      return (await packContext(await contextDirectory(directory.path, undefined)))?.tarDigest;
    }),
  );
  assert.equal(digests[0], digests[1]);
  assert.match(digests[0] ?? '', /^sha256:/);
});

test('hard links are links to the first name that is sent', async () => {
  await using directory = await makeTempDir('context');
  await fill(directory, { 'a/one': 'content', 'b/own': 'content' });
  for (const path of ['a/one', 'b/own']) await chmod(directory.join(path), 0o644);
  for (const path of ['a', 'b']) await chmod(directory.join(path), 0o755);
  await symlink('a/one', directory.join('soft'));
  const sentWithout = async (ignored: string) => {
    await writeFile(directory.join('Dockerfile.dockerignore'), `Dockerfile*\noutside\n${ignored}`);
    const sent = await contextDirectory(directory.path, directory.join('Dockerfile'));
    const packed = (await packContext(sent))?.tarDigest;
    assert.equal((await measureDirectory(sent)).tarDigest, packed);
    const links = sent.entries.filter(({ kind }) => kind === 'link');
    return { packed, links: links.map(({ path, target }) => `${path} ${target}`) };
  };
  await link(directory.join('b/own'), directory.join('outside'));
  const without = {
    packed: 'sha256:ee2aa39186acd73bd43630262358f44e4fab4e4c5376704ae5204ae2cca10c07',
    links: [],
  };
  assert.deepEqual(await sentWithout(''), without);
  await link(directory.join('a/one'), directory.join('b/two'));
  await link(directory.join('a/one'), directory.join('c'));
  assert.deepEqual((await sentWithout('')).links, ['b/two a/one', 'c a/one']);
  assert.deepEqual((await sentWithout('a/one\n')).links, ['c b/two']);
  assert.deepEqual(await sentWithout('b/two\nc'), without);
});

test('the advice for a large context names its large entries', async () => {
  await using directory = await makeTempDir('context');
  await fill(directory, {
    'data/raw/2024/a.bin': 'x'.repeat(3_000_000),
    'data/raw/2024/b.bin': 'x'.repeat(2_000_000),
    'data/note': 'x'.repeat(1000),
    'top.bin': 'x'.repeat(1_500_000),
    'lib/one/a': 'x'.repeat(600_000),
    'lib/two/b': 'x'.repeat(500_000),
    'src/a': 'a',
  });
  const advice = contextAdvice(await contextDirectory(directory.path, undefined));
  assert.match(advice, /has 7\.6 MB in 7 files/);
  const [, ...lines] = advice.split('\n');
  assert.deepEqual(lines.slice(0, 4), [
    '     5.0 MB  data/raw/2024/',
    '     1.5 MB  top.bin',
    '     1.1 MB  lib/',
    '        1 B  src/',
  ]);
  assert.match(advice, /\.dockerignore/);
});

test('an invalid context is reported', async () => {
  await using directory = await makeTempDir('context');
  await fill(directory, { '.dockerignore': '[a\n', file: '' });
  const failing = (location: string, message: RegExp) =>
    assert.rejects(
      contextDirectory(location, undefined),
      (error: unknown) => error instanceof CommandError && message.test(error.message),
    );
  await failing(directory.join('file'), /neither a directory nor the URL/);
  await failing(directory.join('nothing'), /neither a directory nor the URL/);
  await failing(directory.path, /'\[a' is not a pattern/);
});

test('a pipe is refused unless it is excluded, and a socket is left out', async () => {
  await using directory = await makeTempDir('special');
  const server = createServer().listen(directory.join('socket'));
  await once(server, 'listening');
  try {
    await promisify(execFile)('mkfifo', [directory.join('pipe')]);
    await assert.rejects(contextFiles(directory.path, undefined), /pipe is a pipe or a device/);
    await writeFile(directory.join('.dockerignore'), 'pipe\n');
    const { files } = await contextFiles(directory.path, undefined);
    assert.deepEqual(
      files.map(({ path }) => path),
      ['.dockerignore'],
    );
  } finally {
    server.close();
  }
});

test('a file that nobody may read is packed so', async () => {
  await using directory = await makeTempDir('secret');
  await writeFile(directory.join('secret'), 'text');
  await chmod(directory.join('secret'), 0);
  const packed = await packContext(await contextDirectory(directory.path, undefined));
  const tar = gunzipSync(Buffer.from(packed?.location.split(':').at(-1) ?? '', 'base64'));
  assert.equal(tar.toString('latin1', 100, 106), '000000');
});
