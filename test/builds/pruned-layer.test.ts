import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { TarReader, textOfBytes } from '../../src/archives/index.ts';
import {
  tarEnd,
  tarPadding,
  ustarHeader,
  type WrittenEntry,
} from '../../src/archives/tar-writer.ts';
import { emptyTar, PrunedLayer } from '../../src/builds/solve/dating/pruned-layer.ts';
import { type Entry, tarOf } from '../corpus/layer.ts';

const part = { below: 'opt/conda', maxEntries: 5, maxBytes: 2000 };

function pruned(tar: Buffer, chunk = 700): Buffer {
  const layer = new PrunedLayer(part);
  const parts: Buffer[] = [];
  for (let at = 0; at < tar.length; at += chunk) {
    parts.push(layer.pass(tar.subarray(at, at + chunk)));
  }
  parts.push(layer.end());
  return Buffer.concat(parts);
}

function shown(tar: Buffer): readonly string[] {
  const lines: string[] = [];
  const reader = new TarReader({
    entry({ kind, path, mode, size, mtime, link }) {
      lines.push(
        `${kind} ${textOfBytes(path)} ${mode.toString(8)} ${size} ${mtime} ${link}`.trim(),
      );
      return false;
    },
    content() {},
  });
  reader.write(tar);
  reader.end();
  return lines;
}

test('of a layer, what is below one path is kept, with one date and one owner', async () => {
  const entries: readonly Entry[] = [
    { name: 'etc/passwd', content: 'x'.repeat(3000) },
    { name: 'opt/', mtime: 5 },
    { name: 'opt/conda2/a', content: 'a' },
    { name: 'opt/.wh.conda', content: '' },
    { name: 'opt/conda/', uid: 5 },
    { name: 'opt/conda/a', content: 'a'.repeat(600), mode: 0o755 },
    { name: 'opt/conda/.wh.gone', content: '' },
    { name: 'opt/conda/é', link: '../a' },
    { name: 'tmp/x', content: 'x' },
  ];
  assert.deepEqual(shown(pruned(await tarOf(entries))), [
    'directory opt/conda/ 755 0 315532800',
    'file opt/conda/a 755 600 315532800',
    'file opt/conda/.wh.gone 644 0 315532800',
    'symlink opt/conda/é 644 0 315532800 ../a',
  ]);
});

test('a layer with nothing there is empty', async () => {
  const tar = pruned(await tarOf([{ name: 'etc/a', content: 'a' }]));
  assert.equal(`sha256:${createHash('sha256').update(tar).digest('hex')}`, emptyTar);
});

test('what an environment cannot have is refused', async () => {
  const refused: readonly (readonly [string, Partial<WrittenEntry> & { path: string }])[] = [
    ['has "opt/conda/../a", which an environment cannot have', { path: 'opt/conda/../a' }],
    ['has "opt/conda/fifo", which', { path: 'opt/conda/fifo', kind: 'fifo' }],
    ['has "opt/conda/dev", which', { path: 'opt/conda/dev', kind: 'block-device' }],
    ['has "opt/conda/l", which', { path: 'opt/conda/l', kind: 'link', link: 'etc/passwd' }],
    ['has "opt/conda/l", which', { path: 'opt/conda/l', kind: 'link', link: 'opt/conda/../x' }],
    [
      'has "opt/conda", which must stay a directory',
      { path: 'opt/conda', kind: 'symlink', link: '../data' },
    ],
    ['has "opt/conda", which must stay', { path: 'opt/conda' }],
    ['has "./opt/conda", which must stay', { path: './opt/conda', kind: 'link', link: 'opt/a' }],
    ['has "opt", which must stay a directory', { path: 'opt', kind: 'symlink', link: 'data' }],
    ['has more than 2000 bytes', { path: 'opt/conda/a', size: 2001 }],
  ];
  for (const [message, { size = 0, ...entry }] of refused) {
    const header = ustarHeader({ kind: 'file', mode: 0o644, size, ...entry });
    const tar = Buffer.concat([header, Buffer.alloc(size), tarPadding(size), tarEnd]);
    assert.throws(() => pruned(tar), new RegExp(`^Error: ${message.replaceAll('.', '\\.')}`));
  }
  const many = [...'abcdef'].map(name => ({ name: `opt/conda/${name}`, content: '' }));
  const tar = await tarOf(many);
  assert.throws(() => pruned(tar), /has more than 5 files/);
});
