/** Archives of the command line are byte for byte those of tar-stream, which the server reads with. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { pack } from 'tar-stream';
import {
  packedHeader,
  tarEnd,
  tarPadding,
  type WrittenEntry,
} from '../../src/archives/tar-writer.ts';
import { assertBytes } from '../world/assert-bytes.ts';

async function byTarStream(entry: WrittenEntry, content: Buffer | undefined): Promise<Buffer> {
  const tar = pack();
  const { path, kind, mode, link = '' } = entry;
  const name = kind === 'directory' ? `${path}/` : path;
  const header = { name, type: kind, mode, linkname: link, mtime: new Date(0), uid: 0, gid: 0 };
  if (content) tar.entry({ ...header, size: content.length }, content);
  else tar.entry(header);
  tar.finalize();
  const parts: Buffer[] = [];
  for await (const part of tar) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

const part = fc.oneof(
  fc.stringMatching(/^[a-z]{1,60}$/),
  fc.stringMatching(/^[a-zé漢😀 ]{1,30}$/u),
  fc.constantFrom('a'.repeat(99), 'a'.repeat(100), 'a'.repeat(101), 'b'.repeat(155)),
);
const path = fc.array(part, { minLength: 1, maxLength: 6 }).map(parts => parts.join('/'));
// tar-stream writes 0644 for 0.
const mode = fc.integer({ min: 1, max: 0o7777 });
const entry: fc.Arbitrary<[WrittenEntry, Buffer | undefined]> = fc.oneof(
  fc
    .record({ path, mode, content: fc.uint8Array({ maxLength: 2000 }) })
    .map(({ content, ...rest }) => [{ ...rest, kind: 'file' as const }, Buffer.from(content)]),
  fc.record({ path, mode }).map(rest => [{ ...rest, kind: 'directory' as const }, undefined]),
  fc
    .record({ path, mode, link: path })
    .map(rest => [{ ...rest, kind: 'symlink' as const }, undefined]),
) as fc.Arbitrary<[WrittenEntry, Buffer | undefined]>;

test('every entry has the same bytes as with tar-stream', async () => {
  await fc.assert(
    fc.asyncProperty(entry, async ([given, content]) => {
      const bytes = Buffer.concat([
        packedHeader({ ...given, size: content?.length ?? 0 }),
        content ?? Buffer.alloc(0),
        tarPadding(content?.length ?? 0),
        tarEnd,
      ]);
      assertBytes(bytes, await byTarStream(given, content));
    }),
    { numRuns: 500 },
  );
});

test('a file that nobody may read stays so', () => {
  const header = packedHeader({ path: 'secret', kind: 'file', mode: 0, size: 1 });
  assert.equal(header.toString('latin1', 100, 108), '000000 \0');
});
