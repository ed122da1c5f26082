import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { asObject, memberName, parseJson, parseLossless, writeJson } from '../../src/oci/json.ts';
import { OciSyntaxError } from '../../src/oci/syntax-error.ts';
import { jsonObjects } from './arbitraries.ts';

const parse = (text: string) => parseLossless(Buffer.from(text), 'manifest');
const again = (text: string) => writeJson(parse(text)).toString();

test('JSON: the text of a compact writer is written again byte for byte', () => {
  fc.assert(
    fc.property(jsonObjects, text => {
      assert.equal(again(text), text);
    }),
    { numRuns: 1000 },
  );
});

test('JSON: every kind of number keeps its digits', () => {
  for (const number of [
    '0',
    '-0',
    '1',
    '1.0',
    '1.10',
    '1e5',
    '1E+5',
    '1e400',
    '-1e-400',
    '9007199254740991',
    '9007199254740993',
    '18446744073709551616',
    '0.1000000000000000055511151231257827',
    `1${'0'.repeat(400)}`,
  ]) {
    assert.equal(again(`{"n":${number}}`), `{"n":${number}}`);
    assert.equal(
      again(`{"n":[[${number}],{"n":${number}}]}`),
      `{"n":[[${number}],{"n":${number}}]}`,
    );
  }
});

test('JSON: a copy by spreading keeps the spelling of numbers', () => {
  const { first, ...rest } = parse('{"first":1,"n":1.10,"o":{"n":1e400}}');
  assert.equal(first, 1);
  assert.equal(writeJson({ ...rest, last: 1 }).toString(), '{"n":1.10,"o":{"n":1e400},"last":1}');
});

test('JSON: whitespace is removed, values and order stay', () => {
  assert.equal(
    again(' {\n "b" : [ 1 , 2.50 ] ,\t"\\u0061" : "\\/\\u00e9" } '),
    '{"b":[1,2.50],"a":"/é"}',
  );
});

test('JSON: of two members with one name the last one counts, and keeps its own digits', () => {
  assert.equal(again('{"a":1.10,"b":1,"a":9007199254740993}'), '{"a":9007199254740993,"b":1}');
  assert.equal(again('{"a":9007199254740993,"a":1}'), '{"a":1}');
  assert.equal(again('{"a":{"b":1.0,"c":2.0},"a":{"c":3.00}}'), '{"a":{"c":3.00}}');
  assert.equal(again('{"a":[1.0,2.0],"a":{"c":3.00}}'), '{"a":{"c":3.00}}');
});

test('JSON: names that are special in JavaScript are ordinary members', () => {
  const text = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"toJSON":1}';
  assert.equal(again(text), text);
  assert.equal(writeJson({ ...parse(text) }).toString(), text);
  assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  assert.equal(Object.getPrototypeOf(parse(text)), Object.prototype);
});

test('JSON: half a surrogate pair and broken UTF-8 do not break the writer', () => {
  assert.equal(again('{"a":"\\ud800"}'), '{"a":"\\ud800"}');
  const broken = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}')]);
  assert.equal(writeJson(parseLossless(broken, 'config')).toString(), '{"a":"\ufffd"}');
});

test('JSON: anything but an object is refused with a sentence', () => {
  for (const text of [
    '',
    ' ',
    '{',
    '[]',
    'null',
    '1',
    '1.0',
    '"a"',
    '{"a":1}x',
    '{"a":01}',
    '\ufeff{}',
  ]) {
    assert.throws(() => parse(text), OciSyntaxError, text);
  }
  assert.throws(() => parse('['), {
    message: 'The manifest is not valid JSON',
    subject: 'manifest',
  });
});

test('JSON: nesting that is too deep to write is refused when it is read', () => {
  for (const depth of [100, 1000, 3000, 5000, 8000, 20_000, 200_000, 1_000_000]) {
    for (const text of [
      `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`,
      `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
    ]) {
      try {
        assert.equal(again(text), text);
      } catch (error) {
        assert.ok(error instanceof OciSyntaxError, `${depth}: ${error}`);
        assert.ok(depth > 500, 'documents as deep as anybody writes are read');
      }
    }
  }
});

test('JSON: objects are recognised', () => {
  assert.deepEqual(asObject({ a: 1 }), { a: 1 });
  for (const value of [undefined, null, [], 'a', 1, parse('{"n":1.10}').n]) {
    assert.equal(asObject(value), undefined);
  }
});

test('JSON: the reader alone returns the same values, with plain numbers', () => {
  fc.assert(
    fc.property(jsonObjects, text => {
      assert.deepEqual(parseJson(Buffer.from(text), 'config'), JSON.parse(text));
    }),
  );
  assert.equal(parseJson(Buffer.from('{"n":1.10}'), 'config').n, 1.1);
  assert.throws(() => parseJson(Buffer.from('[]'), 'config'), OciSyntaxError);
  assert.throws(() => parseJson(Buffer.from('{'), 'config'), OciSyntaxError);
});

test('JSON: members are found as Go finds them, in any letter case, the last of several', () => {
  assert.equal(memberName({ Env: 1 }, 'Env'), 'Env');
  assert.equal(memberName({ env: 1 }, 'Env'), 'env');
  assert.equal(memberName({ Env: 1, ENV: 2 }, 'Env'), 'ENV');
  assert.equal(memberName({ ENV: 1, Env: 2 }, 'Env'), 'Env');
  assert.equal(memberName({ Environment: 1 }, 'Env'), 'Env');
  assert.equal(memberName({}, '__proto__'), '__proto__');
});
