/** Hostile sparse files: how long they hold the event loop. That sparse files are complete is in convert-content. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { TarReader } from '../../src/archives/tar-reader.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { type TarPart, tarOf } from './tar-file.ts';

const pieceSize = 512;
/** The piece that a layer is read in. */
const turnBytes = 64 * 1024;

interface Read {
  readonly content: Buffer;
  readonly pieces: number;
}

/** Reads a tar file in small pieces, with a turn of the event loop after each 64 KiB. */
async function readInTurns(tar: Buffer, wants = true): Promise<Read> {
  const parts: Buffer[] = [];
  const reader = new TarReader({
    entry: () => wants,
    content: bytes => void parts.push(bytes),
  });
  for (let at = 0; at < tar.length; at += pieceSize) {
    reader.write(tar.subarray(at, at + pieceSize));
    if (at % turnBytes === 0) await nextTurn();
  }
  reader.end();
  return { content: Buffer.concat(parts), pieces: parts.length };
}

/** A sparse file in the format that stores its map before the data. */
function sparsePart(size: number, map: string, data = ''): TarPart {
  const before = map.padEnd(Math.ceil(map.length / 512) * 512, '\0');
  const pax = {
    'GNU.sparse.major': '1',
    'GNU.sparse.minor': '0',
    'GNU.sparse.realsize': String(size),
  };
  return { name: 'thin', content: `${before}${data}`, pax };
}

async function assertNeverHeld(work: () => Promise<unknown>): Promise<void> {
  const { cpuMs } = await longestBlock(work);
  const bound = boundMs(50);
  assert.ok(cpuMs < bound, `the event loop was held for ${cpuMs} ms, ${bound} are allowed`);
}

test('the map of a sparse file is read once, however small the pieces are', async () => {
  const parts = Array.from({ length: 90_000 }, (_, at) => `${1_000_000 + at}\n0\n`);
  const tar = tarOf([sparsePart(2_000_000, `${parts.length}\n${parts.join('')}`)]);
  await assertNeverHeld(async () => {
    const { content } = await readInTurns(tar);
    assert.equal(content.length, Math.ceil(2_000_000 / 512) * 512);
  });
});

test('a sparse file of many tiny parts is complete and comes in few pieces', async () => {
  const count = 80_000;
  const parts = Array.from({ length: count }, (_, at) => `${2 * at + 1}\n1\n`);
  const tar = tarOf([sparsePart(2 * count, `${count}\n${parts.join('')}`, 'x'.repeat(count))]);
  await assertNeverHeld(async () => {
    const { content, pieces } = await readInTurns(tar);
    assert.ok(content.subarray(0, 2 * count).equals(Buffer.from('\0x'.repeat(count))));
    assert.ok(pieces < 1000, `${pieces} pieces`);
  });
});

test('a sparse file of more parts than a real one can have is refused', async () => {
  const count = 262_000;
  const before = tarOf([sparsePart(9, `${count}\n${'0\n0\n'.repeat(count)}`)]);
  await assert.rejects(readInTurns(before), /sparse file of more than 100000 parts/);
  const map = Array(count).fill('0,0').join(',');
  const pax = { 'GNU.sparse.map': map, 'GNU.sparse.size': '9' };
  const inHeader = tarOf([{ name: 'thin', pax }]);
  await assert.rejects(readInTurns(inHeader), /sparse file of more than 100000 parts/);
});

test('the map in the header of an entry without wanted content is not parsed', async () => {
  const pax = { 'GNU.sparse.map': '0,0,'.repeat(260_000), 'GNU.sparse.size': '9' };
  // The map is damaged: a reader that parses it fails.
  await readInTurns(tarOf([{ name: 'thin', pax }]), false);
  await readInTurns(tarOf([{ name: 'link', type: 'symlink', link: 'thin', pax }]));
});

test('a PAX header of more records than a real one has is refused', async () => {
  const content = '6 a=1\n'.repeat(170_000);
  const tar = tarOf([{ name: 'x', type: 'pax', content }, { name: 'a' }]);
  await assert.rejects(readInTurns(tar), /PAX header of more than 10000 records/);
});
