import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { retryAfterSeconds } from '../../src/upstream/transport/retry.ts';

const of = (value: string | undefined) =>
  retryAfterSeconds({ headers: new Map(value === undefined ? [] : [['retry-after', value]]) });

test('Retry-After as seconds', () => {
  assert.equal(of(undefined), undefined);
  assert.equal(of('0'), 0);
  assert.equal(of('120'), 120);
  for (const text of ['', 'soon', '-5', '1.5', '99999999999999999999', '5 seconds', '1e3']) {
    assert.equal(of(text), undefined, text);
  }
});

test('Retry-After as a date', () => {
  const inOneMinute = of(new Date(Date.now() + 60_000).toUTCString()) ?? 0;
  assert.ok(inOneMinute >= 58 && inOneMinute <= 60, `${inOneMinute}`);
  assert.equal(of('Wed, 21 Oct 2015 07:28:00 GMT'), 0, 'a moment in the past');
});

test('Retry-After is never negative, and nothing is thrown', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.integer().map(String), fc.date().map(String)), text => {
      assert.ok((of(text) ?? 0) >= 0);
    }),
  );
});
