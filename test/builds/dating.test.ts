import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TarReader, type TarVisitor } from '../../src/archives/tar-reader.ts';
import {
  buildTime,
  PassingLayer,
  Redating,
  sourcePathOf,
  sourceStampOf,
} from '../../src/builds/solve/dating/redate-layer.ts';
import { type TarPart, tarOf } from '../sif/tar-file.ts';

const now = buildTime + 1_000_003;

/** Compiled code of Python 3.12. */
function compiled(mtime: number, size: number, flags = 0): Buffer {
  const head = Buffer.alloc(40, 7);
  head.set([0xcb, 0x0d, 0x0d, 0x0a]);
  head.writeUInt32LE(flags, 4);
  head.writeUInt32LE(mtime, 8);
  head.writeUInt32LE(size, 12);
  return head;
}

function pass(tar: Buffer, visitor: TarVisitor, step: number): Buffer {
  const entries = new PassingLayer(visitor);
  const parts: Buffer[] = [];
  for (let at = 0; at < tar.length; at += step) {
    parts.push(Buffer.from(entries.pass(Buffer.from(tar.subarray(at, at + step)))));
  }
  return Buffer.concat([...parts, entries.end()]);
}

/** Returns the layers as they are written, in pieces of the given size. */
function redate(layers: readonly (readonly TarPart[])[], step = 700): Buffer[] {
  const redating = new Redating();
  const tars = layers.map(parts => tarOf(parts));
  for (const tar of tars) pass(tar, redating.reader(), step);
  return tars.map(tar => pass(tar, redating.writer(), step));
}

/** Returns the time and the beginning of the content of each entry by its name, as a container program reads them. */
function read(tar: Buffer): Map<string, { mtime: number; head: Buffer }> {
  const found = new Map<string, { mtime: number; head: Buffer }>();
  let name = '';
  const reader = new TarReader({
    entry({ path, mtime }) {
      name = path;
      found.set(path, { mtime, head: Buffer.alloc(0) });
      return true;
    },
    content(bytes) {
      const entry = found.get(name);
      if (entry) entry.head = Buffer.concat([entry.head, bytes]).subarray(0, 40);
    },
  });
  reader.write(tar);
  reader.end();
  return found;
}

const source = (name: string, mtime = now, text = 'VALUE = 1\n'): TarPart => ({
  name,
  mtime,
  content: Buffer.from(text),
});

test('byte code matches its source, in whichever layer the source is', () => {
  const long = `lib/${'deep/'.repeat(40)}`;
  const below = [source('a/one.py'), source('a/old.py', 1000), source(`${long}far.py`)];
  const above: TarPart[] = [
    source('a/edited.py', now + 5),
    { name: 'a/__pycache__/one.cpython-312.opt-1.pyc', mtime: now, content: compiled(now, 10) },
    { name: 'a/__pycache__/old.cpython-312.pyc', mtime: now, content: compiled(1000, 10) },
    { name: 'a/__pycache__/edited.cpython-312.pyc', mtime: now, content: compiled(now, 10) },
    { name: 'a/__pycache__/base.cpython-312.pyc', mtime: now, content: compiled(now, 10) },
    { name: 'a/__pycache__/hashed.cpython-312.pyc', mtime: now, content: compiled(1, 2, 3) },
    { name: `${long}__pycache__/far.cpython-312.pyc`, mtime: now, content: compiled(now, 10) },
    { name: 'linked.py', type: 'link', link: 'a/one.py', mtime: now },
    { name: '__pycache__/linked.cpython-312.pyc', mtime: now, content: compiled(now, 10) },
  ];
  for (const step of [1, 512, 700, 100_000]) {
    const [lower, upper] = redate([below, above], step).map(read);
    const stamp = (name: string) => upper?.get(name)?.head.readUInt32LE(8);
    assert.equal(stamp('a/__pycache__/one.cpython-312.opt-1.pyc'), buildTime);
    assert.equal(stamp('a/__pycache__/old.cpython-312.pyc'), 1000);
    assert.equal(stamp('a/__pycache__/edited.cpython-312.pyc'), 0, 'stays out of date');
    assert.equal(stamp('a/__pycache__/base.cpython-312.pyc'), now, 'its source is in the base');
    assert.equal(stamp('a/__pycache__/hashed.cpython-312.pyc'), 1);
    assert.equal(stamp(`${long}__pycache__/far.cpython-312.pyc`), buildTime);
    assert.equal(stamp('__pycache__/linked.cpython-312.pyc'), buildTime);
    assert.equal(lower?.get('a/one.py')?.mtime, buildTime);
    assert.equal(lower?.get('a/old.py')?.mtime, 1000);
    assert.equal(lower?.get(`${long}far.py`)?.mtime, buildTime);
    assert.ok([...(upper?.values() ?? [])].every(({ mtime }) => mtime === buildTime));
  }
});

test('a layer without later dates passes unchanged', () => {
  const parts = [source('a.py', 5), { name: 'b', type: 'directory' as const, mtime: buildTime }];
  const redating = new Redating();
  const tar = tarOf(parts);
  assert.deepEqual(pass(tar, redating.writer(), 900), tar);
});

test('the position of the source time depends on the Python version', () => {
  const head = (magic: number) => {
    const bytes = Buffer.alloc(16);
    bytes.writeUInt16LE(magic);
    bytes.set([0x0d, 0x0a], 2);
    bytes.writeUInt32LE(9, 4);
    bytes.writeUInt32LE(8, 8);
    return bytes;
  };
  assert.deepEqual(sourceStampOf(head(62211)), { offset: 4, mtime: 9, size: undefined });
  assert.deepEqual(sourceStampOf(head(3379)), { offset: 4, mtime: 9, size: 8 });
  assert.equal(sourceStampOf(head(3531)), undefined, 'it has a hash');
  assert.deepEqual(sourceStampOf(compiled(5, 6)), { offset: 8, mtime: 5, size: 6 });
  assert.equal(sourceStampOf(Buffer.from('no byte code here, no more')), undefined);
  assert.equal(sourcePathOf('a/b.pyc'), 'a/b.py');
  assert.equal(sourcePathOf('a/__pycache__/b.cpython-312.opt-2.pyc'), 'a/b.py');
});

test('a truncated tar entry is refused', () => {
  const tar = tarOf([source('a.py')]).subarray(0, 600);
  assert.throws(() => pass(tar, new Redating().reader(), 100), /ends in the middle/);
});
