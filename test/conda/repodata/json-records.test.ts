import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  JsonRecords,
  type RecordReceiver,
  RepodataError,
} from '../../../src/conda/repodata/shards/json-records.ts';
import { processorMs } from '../../world/processor-time.ts';

interface Read {
  readonly info: unknown[];
  readonly records: unknown[];
  readonly removed: string[];
}

function read(pieces: readonly Uint8Array[], maxRecordBytes = 2 ** 24): Read {
  const found: Read = { info: [], records: [], removed: [] };
  const receiver: RecordReceiver = {
    info: info => found.info.push(info),
    record: (section, fileName, record) => found.records.push([section, fileName, record]),
    removed: fileName => found.removed.push(fileName),
  };
  const records = new JsonRecords(receiver, maxRecordBytes);
  for (const piece of pieces) records.feed(piece);
  records.end();
  return found;
}

/** Cuts bytes into pieces of these sizes, again and again. */
function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

const record = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 5 });
const section = fc.dictionary(
  fc.string().filter(name => name !== '__proto__'),
  record,
  { maxKeys: 5 },
);

test('records are read whatever the pieces in which they arrive', () => {
  fc.assert(
    fc.property(
      fc.record({
        before: fc.jsonValue(),
        info: record,
        packages: section,
        'packages.conda': section,
        removed: fc.array(fc.string()),
        after: fc.jsonValue(),
      }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 }),
      fc.constantFrom(0, 1, 4),
      (data, sizes, indent) => {
        const bytes = Buffer.from(JSON.stringify(data, null, indent));
        const plain = JSON.parse(bytes.toString()) as typeof data;
        const expected = (['packages', 'packages.conda'] as const).flatMap(name =>
          Object.entries(plain[name]).map(([fileName, value]) => [name, fileName, value]),
        );
        const found = read(cut(bytes, sizes));
        assert.deepEqual(found.records, expected);
        assert.deepEqual(found.info, [plain.info]);
        assert.deepEqual(found.removed, plain.removed);
      },
    ),
  );
});

test('repository data that ends at any byte before its last is refused', () => {
  const text = '{"info":{},"packages":{"a-1-0.conda":{"name":"a \\" \\u00e9}"}}}';
  assert.equal(read([Buffer.from(text)]).records.length, 1);
  for (let end = 0; end < text.length; end += 1) {
    assert.throws(() => read([Buffer.from(text.slice(0, end))]), RepodataError);
  }
});

test('bytes that are not repository data are refused', () => {
  for (const text of ['<html>', '[]', 'null', '{}', '{"packages":{"a":{]}}}', '{"packages":{}}}']) {
    assert.throws(() => read([Buffer.from(text)]), RepodataError, text);
  }
});

test('a record above the limit is refused, in one piece and in many', () => {
  const record = { name: 'x'.repeat(1000) };
  const { length } = JSON.stringify(record);
  const bytes = Buffer.from(JSON.stringify({ info: {}, packages: { 'a-1-0.conda': record } }));
  for (const size of [100, bytes.length]) {
    const pieces = cut(bytes, [size]);
    assert.equal(read(pieces, length).records.length, 1);
    assert.throws(() => read(pieces, length - 1), { message: /a record above 1010 bytes/ });
  }
  const long = Buffer.from(JSON.stringify({ packages: { ['x'.repeat(1000)]: {} } }));
  assert.throws(() => read(cut(long, [100]), 500), { message: /a record above 500 bytes/ });
});

test('a large record that comes in small pieces is not copied for each of them', () => {
  const text = JSON.stringify({ packages: { 'a-1-0.conda': { name: 'x'.repeat(2 ** 23) } } });
  const pieces = cut(Buffer.from(text), [2048]);
  const ms = processorMs(() => read(pieces));
  assert.ok(ms < 1500, `${ms} ms`);
});
