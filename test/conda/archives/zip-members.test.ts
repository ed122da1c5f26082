/** The zip file around a package may be made to harm, cut or damaged. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { tarOf } from '../../corpus/layer.ts';
import { makeTempDir, type TempDir } from '../../world/temp-dir.ts';
import { zipOf } from '../../world/zip.ts';
import { installPacked } from '../installing/installed.ts';
import { listed, membersOf, packedAs, rawTar } from './made-archive.ts';

let directory: TempDir;
before(async () => {
  directory = await makeTempDir('conda-zip');
});
after(() => directory.remove());

const parts = { files: rawTar([{ name: 'x', body: 'content' }]), paths: [listed('x')] };
const filled = 0xffffffff;

/** Returns the zip file of a package, and the offsets of its directory and of the end record. */
async function wholeZip(): Promise<{ zip: Buffer; directoryAt: number; endAt: number }> {
  const zip = zipOf(await membersOf(parts));
  const endAt = zip.length - 22;
  return { zip, directoryAt: zip.readUInt32LE(endAt + 16), endAt };
}

async function assertRefused(zip: Buffer, message: RegExp): Promise<void> {
  await assert.rejects(installPacked(packedAs(zip), directory), { name: 'Fault', message });
}

const changes: Readonly<Record<string, [change: (zip: Buffer, at: number) => void, RegExp]>> = {
  'an encrypted member': [(zip, at) => zip.writeUInt16LE(1, at + 8), /encrypted zip member/],
  'a compressed member': [(zip, at) => zip.writeUInt16LE(8, at + 10), /compressed zip member/],
  'a member with two sizes': [(zip, at) => zip.writeUInt32LE(1, at + 20), /damaged zip file/],
  'a member that ends behind the file': [
    (zip, at) => {
      zip.writeUInt32LE(1_000_000, at + 20);
      zip.writeUInt32LE(1_000_000, at + 24);
    },
    /damaged zip file/,
  ],
  'a member that begins behind the file': [
    (zip, at) => zip.writeUInt32LE(1_000_000, at + 42),
    /damaged zip file/,
  ],
  'a member without its own header': [
    (zip, at) => zip.writeUInt32LE(zip.readUInt32LE(at + 42) + 1, at + 42),
    /damaged zip file/,
  ],
  'a member with numbers of ZIP64 that are not there': [
    (zip, at) => zip.writeUInt32LE(filled, at + 42),
    /damaged zip file/,
  ],
  'a member with another checksum': [
    (zip, at) => zip.writeUInt32LE(7, at + 16),
    /damaged zip member/,
  ],
};

for (const [name, [change, message]] of Object.entries(changes)) {
  test(`${name} is refused`, async () => {
    const { zip, directoryAt } = await wholeZip();
    // The second entry is that of the files.
    const second = directoryAt + 46 + 'metadata.json'.length;
    change(zip, second);
    await assertRefused(zip, message);
  });
}

test('members that overlap are refused', async () => {
  const { zip, directoryAt } = await wholeZip();
  const second = directoryAt + 46 + 'metadata.json'.length;
  // The first member grows over the header of the second.
  const grown = Buffer.from(zip);
  grown.writeUInt32LE(zip.readUInt32LE(second + 42) - 30 - 13 + 40, directoryAt + 20);
  grown.writeUInt32LE(grown.readUInt32LE(directoryAt + 20), directoryAt + 24);
  await assertRefused(grown, /overlapping zip members/);
});

test('two members of one name are refused', async () => {
  const members = await membersOf(parts);
  await assertRefused(zipOf([...members, ...members.slice(0, 1)]), /two zip members of one name/);
});

test('very many members are refused', async () => {
  const many = Array.from({ length: 65 }, (_, index) => [`m${index}`, Buffer.alloc(1)] as const);
  await assertRefused(zipOf([...(await membersOf(parts)), ...many]), /more than 64 zip members/);
});

test('a missing or doubled part of a package is refused', async () => {
  const members = await membersOf(parts);
  await assertRefused(zipOf(members.slice(1)), /has no metadata\.json/);
  await assertRefused(zipOf(members.slice(0, 2)), /must have one member info-/);
  const second: [string, Buffer] = ['pkg-other.tar.zst', members[1]?.[1] ?? Buffer.alloc(0)];
  await assertRefused(zipOf([...members, second]), /must have one member pkg-/);
  await assertRefused(zipOf([]), /has no metadata\.json/);
});

test('another version of the format is refused', async () => {
  const [, ...rest] = await membersOf(parts);
  const metadata = Buffer.from('{"conda_pkg_format_version": 3}');
  await assertRefused(zipOf([['metadata.json', metadata], ...rest]), /has format version 3, not 2/);
  await assertRefused(zipOf([['metadata.json', Buffer.from('x')], ...rest]), /damaged metadata/);
});

test('a page of a proxy instead of an archive is refused', async () => {
  await assertRefused(Buffer.from('<html>Sign in</html>'.repeat(100)), /is not a zip file/);
  await assertRefused(Buffer.alloc(0), /is not a zip file/);
});

test('sizes in the form of ZIP64 are read', async () => {
  const { zip, directoryAt, endAt } = await wholeZip();
  const count = 3;
  const entries: Buffer[] = [];
  for (let at = directoryAt; at < endAt; ) {
    const nameBytes = zip.readUInt16LE(at + 28);
    const entry = Buffer.from(zip.subarray(at, at + 46 + nameBytes));
    const extra = Buffer.alloc(28);
    extra.writeUInt16LE(1, 0);
    extra.writeUInt16LE(24, 2);
    extra.writeBigUInt64LE(BigInt(entry.readUInt32LE(24)), 4);
    extra.writeBigUInt64LE(BigInt(entry.readUInt32LE(20)), 12);
    extra.writeBigUInt64LE(BigInt(entry.readUInt32LE(42)), 20);
    for (const field of [20, 24, 42]) entry.writeUInt32LE(filled, field);
    entry.writeUInt16LE(extra.length, 30);
    entries.push(entry, extra);
    at += 46 + nameBytes;
  }
  const list = Buffer.concat(entries);
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06064b50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeBigUInt64LE(BigInt(count), 32);
  record.writeBigUInt64LE(BigInt(list.length), 40);
  record.writeBigUInt64LE(BigInt(directoryAt), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(directoryAt + list.length), 8);
  const end = Buffer.from(zip.subarray(endAt));
  end.writeUInt32LE(filled, 12);
  end.writeUInt32LE(filled, 16);
  const large = Buffer.concat([zip.subarray(0, directoryAt), list, record, locator, end]);
  const { paths } = await installPacked(packedAs(large), directory);
  assert.deepEqual(paths, ['x']);
});

test('the largest window of zstd that packages have is read, a larger one is refused', async () => {
  const members = await membersOf(parts);
  // A frame with one block that is stored as it is. Source: RFC 8878, 3.1.1.
  const withWindow = (log: number) => {
    const header = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3, 0, 0, 0]);
    header.writeUIntLE((parts.files.length << 3) | 1, 6, 3);
    const files = Buffer.concat([header, parts.files]);
    return zipOf(members.map(([name, bytes]) => [name, name.startsWith('pkg-') ? files : bytes]));
  };
  await assert.doesNotReject(installPacked(packedAs(withWindow(27)), directory));
  await assertRefused(withWindow(28), /requires a larger zstd window than is allowed/);
});

test('whatever byte is changed, the archive is read or refused', async () => {
  const { zip } = await wholeZip();
  const outcomes = new Set<string>();
  for (let at = 0; at < zip.length; at += 3) {
    const changed = Buffer.from(zip);
    changed[at] = (zip[at] ?? 0) ^ (1 << (at % 8));
    await installPacked(packedAs(changed), directory).then(
      () => outcomes.add('read'),
      (error: Error) => {
        assert.equal(error.name, 'Fault', error.stack);
        outcomes.add('refused');
      },
    );
  }
  assert.deepEqual([...outcomes].toSorted(), ['read', 'refused']);
});

test('a package that is stopped ends with the reason', async () => {
  const controller = new AbortController();
  controller.abort(new Error('nobody waits'));
  const packed = packedAs(zipOf(await membersOf({ ...parts, files: await tarOf([]), paths: [] })));
  await assert.rejects(
    installPacked(packed, directory, { signal: controller.signal }),
    (error: Error) => error.name === 'AbortError' || error.message === 'nobody waits',
  );
});
