import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { JsonRecords, RepodataError } from '../../../src/conda/repodata/shards/json-records.ts';

interface Read {
  readonly info: unknown[];
  readonly records: unknown[];
}

function read(pieces: readonly Uint8Array[]): Read {
  const found: Read = { info: [], records: [] };
  const records = new JsonRecords({
    info: info => found.info.push(info),
    record: (section, fileName, record) => found.records.push([section, fileName, record]),
  });
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
