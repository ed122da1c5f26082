/** A wheel may be damaged, or made to harm: it is refused, and the message says why. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { archiveLimits } from '../../../src/conda/archives/archive-checks.ts';
import { installWheel } from '../../../src/pypi/wheels/install-wheel.ts';
import { makeTempDir, type TempDir } from '../../world/temp-dir.ts';
import { type MadeMember, type MadeWheel, rawZip, wheelOf } from './made-wheel.ts';

let directory: TempDir;
before(async () => {
  directory = await makeTempDir('harmful-wheels');
});
after(() => directory.remove());

const python = { minorVersion: '3.12', sitePackages: 'lib/python3.12/site-packages' };

async function install(bytes: Buffer, limits: Partial<typeof archiveLimits> = {}): Promise<void> {
  const path = directory.join('made-1.0-py3-none-any.whl');
  await writeFile(path, bytes);
  await installWheel(
    path,
    {
      ...{ name: 'made', version: '1.0', fileName: 'made-1.0-py3-none-any.whl' },
      ...{ url: 'https://pypi.example.org/made-1.0-py3-none-any.whl', sha256: '0'.repeat(64) },
    },
    { prefix: '/opt/conda', python },
    { write: () => {} },
    { signal: new AbortController().signal, limits: { ...archiveLimits, ...limits } },
  );
}

const withMember = (member: MadeMember): MadeWheel => ({ members: [member] });
const big = Buffer.alloc(3_000_000, 'content ');
const link = 0o120777;

const wheels: Readonly<Record<string, readonly [made: MadeWheel, message: RegExp]>> = {
  'a path above the prefix': [withMember({ name: '../x.py' }), /unsafe path, "\.\.\/x\.py"/],
  'a path above the prefix in the middle': [withMember({ name: 'a/../../x.py' }), /unsafe path/],
  'an absolute path': [withMember({ name: '/etc/passwd' }), /unsafe path, "\/etc\/passwd"/],
  'a path with a zero': [withMember({ name: 'x\0.py' }), /unsafe path/],
  'data above the prefix': [withMember({ name: 'made-1.0.data/data/../../x' }), /unsafe path/],
  'a symbolic link': [
    withMember({ name: 'x', content: '/etc/passwd', mode: link }),
    /a member that is not a file, "x"/,
  ],
  'a device': [withMember({ name: 'x', mode: 0o020666 }), /a member that is not a file/],
  'a directory that is a file': [
    withMember({ name: 'x/', content: 'content', mode: 0o040755 }),
    /a member without a file name/,
  ],
  'two members of one name': [
    { members: [{ name: 'x.py' }, { name: 'x.py', content: 'other' }] },
    /two zip members of one name/,
  ],
  'two members of one path': [
    { members: [{ name: 'x.py' }, { name: './x.py', content: 'other' }] },
    /two members "x\.py"/,
  ],
  'a file below a file': [
    { members: [{ name: 'x' }, { name: 'x/y.py' }] },
    /an entry ".*\/x\/y\.py" below a file or link/,
  ],
  'a name that deletes a file of another layer': [
    withMember({ name: 'numpy/.wh.__init__.py' }),
    /a name by which layers delete files/,
  ],
  'a name that empties a directory': [
    withMember({ name: 'made-1.0.data/data/lib/.wh..wh..opq' }),
    /a name by which layers delete files/,
  ],
  'a record of Conda': [
    withMember({ name: 'made-1.0.data/data/conda-meta/python-3.12.0-0.json' }),
    /where records of the environment are/,
  ],
  'a script in place of Python': [
    withMember({ name: 'made-1.0.data/scripts/python3.12', content: '#!python\n' }),
    /a script with the name of Python, ".*\/python3\.12"/,
  ],
  'an encrypted member': [
    withMember({ name: 'x', change: entry => entry.writeUInt16LE(0x801, 8) }),
    /an encrypted zip member, "x"/,
  ],
  'an unknown compression': [
    withMember({ name: 'x', change: entry => entry.writeUInt16LE(14, 10) }),
    /a zip member of an unknown compression \(14\), "x"/,
  ],
  'a name that is not UTF-8': [
    withMember({ name: Buffer.from([0x78, 0xff, 0xfe]) }),
    /an entry whose name is not valid UTF-8/,
  ],
  'a member with two names': [
    withMember({ name: 'good.py', localName: 'evil.py' }),
    /a zip member with two names, "good\.py"/,
  ],
  'a member that is larger than it says': [
    withMember({
      ...{ name: 'x', content: big, isDeflated: true },
      change: entry => entry.writeUInt32LE(1000, 24),
    }),
    /a damaged zip member, "x"/,
  ],
  'a member that is smaller than it says': [
    withMember({
      ...{ name: 'x', content: big, isDeflated: true },
      change: entry => entry.writeUInt32LE(4_000_000, 24),
    }),
    /a damaged zip member, "x"/,
  ],
  'a small member that is larger than it says': [
    withMember({
      ...{ name: 'x', content: 'content', isDeflated: true },
      change: entry => entry.writeUInt32LE(3, 24),
    }),
    /a damaged zip member, "x"/,
  ],
  'a damaged stream': [
    withMember({
      ...{ name: 'x', content: 'content', isDeflated: false },
      change: entry => {
        entry.writeUInt16LE(8, 10);
      },
    }),
    /a damaged zip member, "x"/,
  ],
  'a large damaged stream': [
    withMember({
      ...{ name: 'x', content: big },
      change: entry => {
        entry.writeUInt16LE(8, 10);
      },
    }),
    /a damaged zip member, "x"/,
  ],
  'another checksum': [
    withMember({ name: 'x', content: 'x', change: entry => entry.writeUInt32LE(7, 16) }),
    /a damaged zip member, "x"/,
  ],
  'members that overlap': [
    {
      members: [
        { name: 'x', content: 'content' },
        { name: 'y', change: overlapping },
      ],
    },
    /(?:two names|overlapping zip members)/,
  ],
  'data of an unknown kind': [
    withMember({ name: 'made-1.0.data/etc/passwd' }),
    /data of an unknown kind, "made-1\.0\.data\/etc\/passwd"/,
  ],
  'data without a kind': [withMember({ name: 'made-1.0.data/x' }), /data of an unknown kind/],
  'a kind of data that every object has': [
    withMember({ name: 'made-1.0.data/constructor/x' }),
    /data of an unknown kind/,
  ],
  'a script in a directory': [
    withMember({ name: 'made-1.0.data/scripts/a/b' }),
    /a script in a directory/,
  ],
  'an entry point with a path': [
    { entryPoints: '[console_scripts]\n../x = a:b\n' },
    /an entry point that is not of the form/,
  ],
  'an entry point with code': [
    { entryPoints: '[console_scripts]\nx = os; import sys:b\n' },
    /an entry point that is not of the form/,
  ],
  'an entry point that replaces Python': [
    { entryPoints: '[console_scripts]\npython3.12 = a:b\n' },
    /an entry point with the name of Python/,
  ],
  'two packages': [
    withMember({ name: 'other-1.0.dist-info/METADATA', content: 'Name: other\n' }),
    /two \.dist-info directories/,
  ],
  'another package': [{ name: 'other' }, /contains the package "other", not "made"/],
  'another version': [{ version: '1.1' }, /contains version "1\.1", not "1\.0"/],
  'a newer format': [{ wheelVersion: '2.0' }, /the wheel version "2\.0", which is not supported/],
  'a damaged RECORD': [{ record: () => 'x,"sha256' }, /a damaged RECORD/],
};

function overlapping(entry: Buffer): void {
  entry.writeUInt32LE(0, 42);
}

for (const [name, [made, message]] of Object.entries(wheels)) {
  test(`${name} is refused`, async () => {
    await assert.rejects(install(wheelOf(made).bytes), { name: 'Fault', message });
  });
}

test('a file that is no wheel is refused', async () => {
  const empty = rawZip([]);
  const notWheel = rawZip([{ name: 'x' }]);
  await assert.rejects(install(Buffer.from('no zip')), /is not a zip file, or is cut/);
  await assert.rejects(install(empty), /has no \.dist-info directory/);
  await assert.rejects(install(notWheel), /has no \.dist-info directory/);
  const { bytes } = wheelOf({});
  await assert.rejects(install(bytes.subarray(0, -30)), /is not a zip file, or is cut/);
});

test('what a wheel may have is bounded', async () => {
  const members = Array.from({ length: 100 }, (_, at) => ({
    ...{ name: `${at}.py`, content: Buffer.alloc(1000), isDeflated: true },
  }));
  const { bytes } = wheelOf({ members });
  await install(bytes);
  await assert.rejects(install(bytes, { entries: 50 }), /has more than 50 zip members/);
  const unpacked = { freeBytes: 50_000, ratio: 1 };
  await assert.rejects(install(bytes, unpacked), /has more than 50000 bytes when it is unpacked/);
  await assert.rejects(install(bytes, { unpackedBytes: 1000 }), /has more than 1000 bytes/);
  const text = wheelOf({ entryPoints: `[x]\n${'# comment\n'.repeat(200_000)}` });
  await assert.rejects(install(text.bytes), /entry_points\.txt" of more than 1048576 bytes/);
  const deep = { name: `${'a/'.repeat(1000)}x` };
  await assert.rejects(
    install(wheelOf(withMember(deep)).bytes, { entries: 500 }),
    /has more than 500 directories/,
  );
});
