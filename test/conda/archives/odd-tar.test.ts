/** Tar files with odd headers: what they say counts once, in one way, and nothing gets around the checks of paths. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, truncate, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { type Entry, tarOf } from '../../corpus/layer.ts';
import { makeTempDir, type TempDir } from '../../world/temp-dir.ts';
import { installPacked } from '../installing/installed.ts';
import { listed, madeArchive, rawTar } from './made-archive.ts';

let directory: TempDir;
before(async () => {
  directory = await makeTempDir('conda-odd-tar');
});
after(() => directory.remove());

const install = async (files: Buffer, paths: readonly string[], type?: string) =>
  installPacked(
    await madeArchive({ files, paths: paths.map(path => listed(path, type)) }),
    directory,
  );

/** A record of a PAX header, with the length that it states of itself. */
function record(keyword: string, value: string): string {
  const rest = Buffer.byteLength(` ${keyword}=${value}\n`);
  let length = rest + 1;
  while (String(length).length + rest !== length) length += 1;
  return `${length} ${keyword}=${value}\n`;
}

/** The header of a tar entry with a path, in the tar file that is installed. */
function headerOf(tar: Buffer, path: string): Buffer {
  for (let at = 0; at < tar.length; at += 512) {
    const block = tar.subarray(at, at + 512);
    if (block.toString('latin1', 257, 262) !== 'ustar') continue;
    if (block.toString('latin1', 0, block.indexOf(0)) === `opt/conda/${path}`) return block;
  }
  throw new Error(`${path} is not installed`);
}

test('a file loses setuid, setgid and sticky, and keeps its other permissions', async () => {
  for (const mode of [0o4755, 0o2755, 0o1777, 0o7777, 0o6000]) {
    const { tar } = await install(await tarOf([{ name: 'bin/x', content: 'x', mode }]), ['bin/x']);
    const installed = headerOf(tar, 'bin/x').toString('latin1', 100, 107);
    assert.equal(Number.parseInt(installed, 8), mode & 0o777);
  }
});

test('an owner, a group and attributes of an archive are not installed', async () => {
  const attributes =
    record('SCHILY.xattr.security.capability', 'all') + record('uname', 'somebody');
  const files = rawTar([
    { name: 'pax', type: 'x', body: attributes },
    { name: 'x', body: 'x' },
  ]);
  const { tar } = await install(files, ['x']);
  for (const text of ['SCHILY', 'somebody']) assert.ok(!tar.includes(text), text);
  assert.equal(headerOf(tar, 'x').toString('latin1', 108, 124), '0000000\0'.repeat(2));
});

test('the size in a PAX header counts, and one that lies is refused', async () => {
  const sized = (size: string, body = 'x'.repeat(600)) =>
    rawTar([
      { name: 'pax', type: 'x', body: record('size', size) },
      { name: 'x', size: 0, body },
      { name: 'y', body: 'y' },
    ]);
  const { tar } = await install(sized('600'), ['x', 'y']);
  assert.equal(Number.parseInt(headerOf(tar, 'x').toString('latin1', 124, 135), 8), 600);
  for (const [size, message] of [
    ['0', /not a tar archive, or is damaged/],
    ['6000', /ends in the middle of a tar entry/],
    ['-1', /damaged PAX header/],
    ['0x10', /damaged PAX header/],
    ['1e3', /damaged PAX header/],
    ['9007199254740993', /damaged PAX header/],
    ['9007199254740991', /has more than \d+ bytes when it is unpacked/],
  ] as const) {
    await assert.rejects(install(sized(size), ['x']), message, size);
  }
});

test('paths and targets in PAX and GNU headers are checked as those in plain ones', async () => {
  for (const path of ['../../etc/passwd', '/etc/passwd', 'a/../../b', 'a//b', './/./../x']) {
    for (const header of [
      { name: 'pax', type: 'x', body: record('path', path) },
      { name: '././@LongLink', type: 'L', body: `${path}\0` },
    ]) {
      await assert.rejects(install(rawTar([header, { name: 'x', body: 'x' }]), []), /unsafe path/);
    }
  }
  for (const target of ['../../etc/passwd', '/etc/passwd']) {
    for (const header of [
      { name: 'pax', type: 'x', body: record('linkpath', target) },
      { name: '././@LongLink', type: 'K', body: `${target}\0` },
    ]) {
      const files = rawTar([{ name: 'y' }, header, { name: 'x', type: '1', link: 'y' }]);
      await assert.rejects(install(files, []), /unsafe path/);
    }
  }
});

test('a zero in a name is refused, whichever header has it', async () => {
  const files = rawTar([
    { name: 'pax', type: 'x', body: record('path', 'bin/x\0/../../etc') },
    { name: 'x', body: 'x' },
  ]);
  await assert.rejects(install(files, []), /damaged PAX header/);
  const paths = [listed('bin/x\0y')];
  await assert.rejects(installPacked(await madeArchive({ paths }), directory), /unsafe path/);
});

test('a header for all later entries changes none of them', async () => {
  const files = rawTar([
    { name: 'pax', type: 'g', body: record('path', '../../etc/passwd') + record('size', '9') },
    { name: 'x', body: 'x' },
  ]);
  assert.deepEqual((await install(files, ['x'])).paths, ['x']);
});

test('sparse files are refused, in every form that GNU tar writes', async () => {
  await mkdir(directory.join('sparse'));
  await writeFile(directory.join('sparse/x'), '');
  await truncate(directory.join('sparse/x'), 64 * 1024 * 1024);
  const forms = [
    'gnu',
    'posix --sparse-version=0.0',
    'posix --sparse-version=0.1',
    'posix --sparse-version=1.0',
  ];
  for (const form of forms) {
    const options = [...`--format=${form}`.split(' '), '--sparse', '-cC', directory.join('sparse')];
    const files = execFileSync('tar', [...options, 'x']);
    assert.ok(files.length < 32 * 1024, form);
    await assert.rejects(install(files, ['x']), /has a sparse file/, form);
  }
});

test('a long name is the same in every form of tar', async () => {
  const name = `lib/${'long-name/'.repeat(15)}${'x'.repeat(200)}`;
  await mkdir(directory.join('long', name, '..'), { recursive: true });
  await writeFile(directory.join('long', name), 'x');
  const tars = ['gnu', 'posix'].map(form =>
    execFileSync('tar', [`--format=${form}`, '--mtime=@0', '-cC', directory.join('long'), name]),
  );
  const [one, other] = await Promise.all(tars.map(files => install(files, [name])));
  assert.deepEqual(one?.paths, [name]);
  assert.deepEqual(
    one?.tar.subarray(0, one.tar.indexOf('conda-meta')),
    other?.tar.subarray(0, other.tar.indexOf('conda-meta')),
  );
});

test('names that differ in their case only are two files', async () => {
  const entries: Entry[] = ['share/README', 'share/readme', 'share/Readme'].map(name => ({
    name,
    content: name,
  }));
  const paths = entries.map(({ name }) => name);
  const { paths: installed } = await install(await tarOf(entries), paths);
  assert.deepEqual(installed.toSorted(), paths.toSorted());
});

test('names with quotes, blanks and line ends are installed as they are', async () => {
  const names = [
    'share/$(id)',
    'share/`id`',
    'share/a b',
    "share/a'b",
    'share/a"b',
    'share/a\nb',
    'share/-rf',
  ];
  const entries: Entry[] = names.map(name => ({ name, content: 'x' }));
  const { paths } = await install(await tarOf(entries), names);
  assert.deepEqual(paths.toSorted(), names.toSorted());
});

test('a chain of links is followed inside of the package, and ends', async () => {
  const chain = (length: number) => [
    { name: 'l0', body: 'x' },
    ...Array.from({ length }, (_, at) => ({ name: `l${at + 1}`, type: '2', link: `l${at}` })),
  ];
  const copied = async (links: ReturnType<typeof chain>, path: string) =>
    installPacked(
      await madeArchive({
        files: rawTar(links),
        paths: [listed(path, 'softlink', { no_link: true })],
      }),
      directory,
    );
  assert.deepEqual((await copied(chain(40), 'l40')).paths, ['l40']);
  await assert.rejects(copied(chain(41), 'l41'), /a link "l41" that leads to no file/);
  const circle = [
    { name: 'a', type: '2', link: 'b' },
    { name: 'b', type: '2', link: 'a' },
  ];
  await assert.rejects(copied(circle as never, 'a'), /a link "a" that leads to no file/);
});
