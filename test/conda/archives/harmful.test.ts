/** Archives that are made to harm are refused with an error that says why. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { archiveLimits } from '../../../src/conda/archives/archive-checks.ts';
import { tarOf } from '../../corpus/layer.ts';
import { packPackage } from '../../world/conda-package.ts';
import { makeTempDir, type TempDir } from '../../world/temp-dir.ts';
import { requireCommand } from '../../world/tools.ts';
import { type InstallExtras, installPacked } from '../installing/installed.ts';
import { listed, type MadeParts, madeArchive, packedAs, rawTar } from './made-archive.ts';

let directory: TempDir;
before(async () => {
  directory = await makeTempDir('conda-harmful');
});
after(() => directory.remove());

async function assertRefused(
  packed: Awaited<ReturnType<typeof madeArchive>>,
  message: RegExp,
  extras: InstallExtras = {},
): Promise<void> {
  await assert.rejects(installPacked(packed, directory, extras), (error: Error) => {
    assert.equal(error.name, 'Fault', error.stack);
    assert.match(error.message, message);
    assert.match(error.message, /^Cannot install made-1-0\.\S+: its archive at https:\S+ /);
    assert.doesNotMatch(error.message, /\/tmp\//);
    return true;
  });
  // No scratch file is left, only the archives.
  const left = await readdir(directory.path);
  assert.deepEqual(
    left.filter(name => name.startsWith('scratch')),
    [],
  );
}

const refusals: Readonly<Record<string, [MadeParts, RegExp]>> = {
  'a path with dots': [
    { files: rawTar([{ name: '../../etc/passwd', body: 'x' }]) },
    /has an unsafe path, "\.\.\/\.\.\/etc\/passwd"/,
  ],
  'a path with dots inside': [{ files: rawTar([{ name: 'a/../../b' }]) }, /unsafe path/],
  'an absolute path': [{ files: rawTar([{ name: '/etc/passwd' }]) }, /unsafe path/],
  'a listed path with dots': [{ paths: [listed('../x')] }, /unsafe path, "\.\.\/x"/],
  'a listed absolute path': [{ paths: [listed('/etc/passwd')] }, /unsafe path/],
  'a file to copy through a link that climbs out': [
    {
      files: rawTar([{ name: 'lib/out', type: '2', link: '../../../etc/passwd' }]),
      paths: [listed('lib/out', 'softlink', { no_link: true })],
    },
    /a link "lib\/out" that leads to no file of the package/,
  ],
  'a file to copy through an absolute link': [
    {
      files: rawTar([{ name: 'out', type: '2', link: '/etc/passwd' }]),
      paths: [listed('out', 'softlink', { no_link: true })],
    },
    /a link "out" that leads to no file of the package/,
  ],
  'a prefix to replace through a link': [
    {
      files: rawTar([{ name: 'out', type: '2', link: '/etc/passwd' }]),
      paths: [listed('out', 'softlink', { prefix_placeholder: 'root', file_mode: 'text' })],
    },
    /lists "out" as a softlink, which it is not/,
  ],
  'a file below a link that leads out': [
    {
      files: rawTar([
        { name: 'out', type: '2', link: '/etc' },
        { name: 'out/passwd', body: 'x' },
      ]),
      paths: [listed('out', 'softlink'), listed('out/passwd')],
    },
    /"out\/passwd" below a file or link/,
  ],
  'a link to nothing at all': [
    {
      files: rawTar([{ name: 'out', type: '2', link: '' }]),
      paths: [listed('out', 'softlink')],
    },
    /a link "out" with an impossible target, ""/,
  ],
  'a file below a link': [
    {
      files: rawTar([
        { name: 'd', type: '2', link: 'e' },
        { name: 'd/x', body: 'x' },
      ]),
      paths: [listed('d', 'softlink'), listed('d/x')],
    },
    /"d\/x" below a file or link/,
  ],
  'a file below a file': [
    { files: rawTar([{ name: 'd' }, { name: 'd/x' }]), paths: [listed('d'), listed('d/x')] },
    /below a file or link/,
  ],
  'a hard link that leads out': [
    { files: rawTar([{ name: 'x', type: '1', link: '/etc/shadow' }]) },
    /unsafe path/,
  ],
  'a hard link to nothing': [
    { files: rawTar([{ name: 'x', type: '1', link: 'y' }]) },
    /hard link "x" whose target is not an earlier file/,
  ],
  'a device': [{ files: rawTar([{ name: 'x', type: '3' }]) }, /has an entry that is not a file/],
  'a queue': [{ files: rawTar([{ name: 'x', type: '6' }]) }, /has an entry that is not a file/],
  'two entries of one name': [{ files: rawTar([{ name: 'x' }, { name: 'x' }]) }, /two entries "x"/],
  'a path that is listed twice': [
    { files: rawTar([{ name: 'x' }]), paths: [listed('x'), listed('x')] },
    /lists "x" twice/,
  ],
  'a listed path that is not there': [{ paths: [listed('gone')] }, /lists "gone", which/],
  'a file that is listed as a link': [
    { files: rawTar([{ name: 'x' }]), paths: [listed('x', 'softlink')] },
    /lists "x" as a softlink, which it is not/,
  ],
  'a file whose name deletes another one when the layer is unpacked': [
    { files: rawTar([{ name: 'bin/.wh.python' }]), paths: [listed('bin/.wh.python')] },
    /installs "bin\/\.wh\.python", a name by which layers delete files/,
  ],
  'a file whose name hides a directory': [
    { files: rawTar([{ name: '.wh..wh..opq' }]), paths: [listed('.wh..wh..opq')] },
    /a name by which layers delete files/,
  ],
  'a directory whose name deletes another one': [
    { files: rawTar([{ name: 'lib/.wh.x/y' }]), paths: [listed('lib/.wh.x/y')] },
    /a name by which layers delete files/,
  ],
  'a record of another package': [
    {
      files: rawTar([{ name: 'conda-meta/other.json' }]),
      paths: [listed('conda-meta/other.json')],
    },
    /installs "conda-meta\/other\.json", where records/,
  ],
  'a file with another digest': [
    {
      files: rawTar([{ name: 'x', body: 'x' }]),
      paths: [listed('x', 'hardlink', { sha256: '0'.repeat(64) })],
    },
    /contains "x" with another digest than it lists/,
  ],
  'a file with another size': [
    {
      files: rawTar([{ name: 'x', body: 'x' }]),
      paths: [listed('x', 'hardlink', { size_in_bytes: 2 })],
    },
    /lists "x" with 2 bytes, but it has 1/,
  ],
  'a damaged list': [
    { info: [{ name: 'info/paths.json', content: '{"paths": [{]' }] },
    /has a damaged info\/paths\.json/,
  ],
  'a list of something else': [{ paths: [7] }, /has a damaged info\/paths\.json/],
  'a list that is nested too deeply': [
    { info: [{ name: 'info/paths.json', content: '['.repeat(100_000) }] },
    /has a damaged info\/paths\.json/,
  ],
  'the index of another package': [
    { info: [{ name: 'info/index.json', content: '{"name": "other", "version": "1"}' }] },
    /contains a package with name "other", not "made"/,
  ],
  'an entry point that writes elsewhere': [
    {
      info: [
        { name: 'info/index.json', content: indexWith({ noarch: 'python' }) },
        { name: 'info/link.json', content: linkWith('../../x = a:b') },
      ],
    },
    /has an entry point that is not of the form command = module:function, "\.\.\/\.\.\/x = a:b"/,
  ],
  'an entry point whose name no file can have': [
    {
      info: [
        { name: 'info/index.json', content: indexWith({ noarch: 'python' }) },
        { name: 'info/link.json', content: linkWith(`${'c'.repeat(300)} = a:b`) },
      ],
    },
    /has an unsafe path, "bin\/c/,
  ],
  'a listed path with half of a character': [
    {
      files: rawTar([{ name: 'share/\ufffd', body: 'x' }]),
      paths: [listed('share/\ud800')],
    },
    /has an unsafe path, "share\//,
  ],
  'an entry point with code in it': [
    {
      info: [
        { name: 'info/index.json', content: indexWith({ noarch: 'python' }) },
        { name: 'info/link.json', content: linkWith('x = os:system("id") #') },
      ],
    },
    /has an entry point that is not of the form/,
  ],
};

function indexWith(more: object): string {
  return JSON.stringify({ name: 'made', version: '1', build: '0', ...more });
}

function linkWith(entryPoint: string): string {
  return JSON.stringify({ noarch: { type: 'python', entry_points: [entryPoint] } });
}

const python = { minorVersion: '3.12', sitePackages: 'lib/python3.12/site-packages' };

for (const [name, [parts, message]] of Object.entries(refusals)) {
  test(`${name} is refused`, async () => {
    await assertRefused(await madeArchive(parts), message, { python });
  });
}

test('a name that is not UTF-8 is refused', async () => {
  const files = rawTar([{ name: 'AAA' }]);
  // The same sum of bytes.
  files.set([0x41 + 0x3f, 0x41 - 0x3f, 0x41], 0);
  await assertRefused(await madeArchive({ files }), /whose name is not valid UTF-8/);
});

test('a package for Python without a Python is refused', async () => {
  const info = [{ name: 'info/index.json', content: indexWith({ noarch: 'python' }) }];
  await assertRefused(await madeArchive({ info }), /is a package for Python, and the environment/);
});

test('files that the package does not list are not installed', async () => {
  const files = rawTar([
    { name: 'x', body: 'x' },
    { name: 'hidden', body: 'y' },
  ]);
  const { paths, tar } = await installPacked(
    await madeArchive({ files, paths: [listed('x')] }),
    directory,
  );
  assert.deepEqual(paths, ['x']);
  assert.doesNotMatch(tar.toString('latin1'), /hidden/);
});

test('a small archive that unpacks to very much is refused, and takes no disk', async () => {
  const limits = { ...archiveLimits, freeBytes: 4 * 1024 * 1024 };
  const files = await tarOf([{ name: 'zeros', content: Buffer.alloc(64 * 1024 * 1024) }]);
  const bomb = await madeArchive({ files, paths: [listed('zeros')] });
  assert.ok(bomb.bytes.length < 16 * 1024);
  await assertRefused(bomb, /has more than \d+ bytes when it is unpacked/, { limits });
});

test('an entry that claims an absurd size is refused before its content is read', async () => {
  const files = rawTar([{ name: 'x', size: 8 ** 11 - 1 }]);
  await assertRefused(await madeArchive({ files }), /has more than \d+ bytes when it is unpacked/);
});

test('bytes behind the end of a tar file count as well', async () => {
  const limits = { ...archiveLimits, freeBytes: 4 * 1024 * 1024 };
  const files = Buffer.concat([await tarOf([]), Buffer.alloc(64 * 1024 * 1024)]);
  await assertRefused(await madeArchive({ files }), /has more than \d+ bytes/, { limits });
});

test('an archive of very many entries is refused', async () => {
  const limits = { ...archiveLimits, entries: 100 };
  const names = Array.from({ length: 101 }, (_, index) => ({ name: `f${index}` }));
  await assertRefused(await madeArchive({ files: rawTar(names) }), /more than 100 entries/, {
    limits,
  });
});

test('a very large document is refused', async () => {
  const limits = { ...archiveLimits, documentBytes: 1000 };
  const large = (name: string, bytes: number) =>
    madeArchive({ info: [{ name, content: JSON.stringify({ a: 'x'.repeat(bytes) }) }] });
  const list = await large('info/paths.json', 1000);
  await assertRefused(list, /info\/paths\.json above 1000 bytes/, { limits });
  const about = await large('info/about.json', 1024 * 1024);
  await assertRefused(about, /info\/about\.json above 1048576 bytes/);
});

test('a very large file of variables is refused', async () => {
  const name = 'etc/conda/env_vars.d/made.json';
  const files = rawTar([{ name, body: JSON.stringify({ A: 'x'.repeat(64 * 1024) }) }]);
  const paths = [listed(name)];
  await assertRefused(await madeArchive({ files, paths }), /sets variables by files above 65536/);
});

test('many files of variables that are large together are refused', async () => {
  const names = [1, 2, 3].map(at => `etc/conda/env_vars.d/made-${at}.json`);
  const files = rawTar(
    names.map(name => ({ name, body: JSON.stringify({ A: 'x'.repeat(30_000) }) })),
  );
  const paths = names.map(name => listed(name));
  await assertRefused(await madeArchive({ files, paths }), /sets variables by files above 65536/);
});

test('a path that is too long together with the prefix is refused', async () => {
  const path = (length: number) => 'd/'.repeat(2000) + 'x'.repeat(length - 4000);
  const made = async (length: number) => {
    const files = await tarOf([{ name: path(length), content: 'x' }]);
    return madeArchive({ files, paths: [listed(path(length))] });
  };
  // With `opt/conda/` in front of it, a path of Linux: 4095 bytes and a zero.
  const { paths } = await installPacked(await made(4085), directory);
  assert.deepEqual(paths, [path(4085)]);
  for (const length of [4086, 4096, 4200])
    await assertRefused(await made(length), /has an unsafe path/);
});

test('lists of an old package with more paths than it has are refused', async () => {
  const lines = Array.from({ length: 100 }, (_, at) => `file-${at}`).join('\n');
  const old = { name: 'made', version: '1', build: '0' };
  for (const name of ['no_link', 'no_softlink', 'has_prefix']) {
    const tar = await tarOf([
      { name: 'info/index.json', content: JSON.stringify(old) },
      { name: 'info/files', content: 'x\n' },
      { name: `info/${name}`, content: lines },
      { name: 'x', content: 'x' },
    ]);
    const bytes = execFileSync(requireCommand('bzip2'), { input: tar });
    await assertRefused(
      packedAs(bytes, '.tar.bz2'),
      new RegExp(`lists more paths in info/${name} than`),
    );
  }
});

test('few files in very many directories are refused', async () => {
  const limits = { ...archiveLimits, entries: 1000 };
  const names = Array.from({ length: 20 }, (_, index) => `${index}/${'d/'.repeat(60)}f`);
  const files = await tarOf(names.map(name => ({ name, content: '' })));
  const paths = names.map(name => listed(name));
  await assertRefused(await madeArchive({ files, paths }), /has more than 1000 directories/, {
    limits,
  });
});

test('a file with very many occurrences of its prefix is refused', async () => {
  const limits = { ...archiveLimits, occurrences: 1000 };
  const files = rawTar([{ name: 'x', body: '/'.repeat(1001) }]);
  const patch = { prefix_placeholder: '/', file_mode: 'text' };
  const paths = [listed('x', 'hardlink', patch)];
  await assertRefused(await madeArchive({ files, paths }), /more than 1000 occurrences/, {
    limits,
  });
});

test('a program whose placeholder is shorter than the prefix is refused', async () => {
  const files = rawTar([{ name: 'x', body: 'a/short/lib\0' }]);
  const patch = { prefix_placeholder: '/short', file_mode: 'binary' };
  const paths = [listed('x', 'hardlink', patch)];
  await assertRefused(await madeArchive({ files, paths }), /placeholder is shorter than the path/);
});

test('a cut archive is refused at whatever byte it is cut, in both formats', async () => {
  const it = { name: 'made', version: '1', files: [{ name: 'x', content: 'x'.repeat(5000) }] };
  for (const format of ['conda', 'tar.bz2'] as const) {
    const { bytes } = await packPackage({ ...it, format });
    for (let length = 0; length < bytes.length; length += 37) {
      await assertRefused(
        packedAs(bytes.subarray(0, length), `.${format}`),
        /is a|has |is not|ends|must/,
      );
    }
  }
});

test('a changed byte of a compressed tar file is found', async () => {
  const it = { name: 'made', version: '1', format: 'tar.bz2' } as const;
  const { bytes } = await packPackage({ ...it, files: [{ name: 'x', content: 'y'.repeat(5000) }] });
  const changed = Buffer.from(bytes);
  const middle = bytes.length >> 1;
  changed[middle] = (bytes[middle] ?? 0) ^ 0x10;
  await assertRefused(packedAs(changed, '.tar.bz2'), /has damaged bzip2 data/);
});

test('bytes after bzip2 data are refused, several streams are not', async () => {
  const { bytes } = await packPackage({ name: 'made', version: '1', format: 'tar.bz2' });
  await assertRefused(packedAs(Buffer.concat([bytes, Buffer.from('x')]), '.tar.bz2'), /bzip2 data/);
  const bzip2 = requireCommand('bzip2');
  const tar = execFileSync(bzip2, ['-d'], { input: bytes });
  const parts = [tar.subarray(0, 700), tar.subarray(700)];
  const joined = Buffer.concat(parts.map(input => execFileSync(bzip2, { input })));
  const { paths } = await installPacked(packedAs(joined, '.tar.bz2'), directory);
  assert.deepEqual(paths, []);
});

test('a tar file without compression is not taken for one with it', async () => {
  const bytes = await tarOf([{ name: 'x', content: 'x' }]);
  await assertRefused(packedAs(bytes, '.tar.bz2'), /has damaged bzip2 data/);
});
