import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maskAddresses } from '../../src/buildkit/index.ts';
import { processorMs } from '../world/processor-time.ts';

test('user, password and token of an address are masked, and nothing else is', () => {
  for (const [text, masked] of [
    ['ADD https://user:token@host/file /x', 'ADD https://***@host/file /x'],
    ['"https://token@host"', '"https://***@host"'],
    ['https://user:p@ss@host/a@b', 'https://***@host/a@b'],
    ['ftp://a:b@h, git+ssh://git@h/x', 'ftp://***@h, git+ssh://***@h/x'],
    ['https://host/a@b?c=d@e', 'https://host/a@b?c=d@e'],
    ['https://host?mail=a@b', 'https://host?mail=a@b'],
    ['mail a@b, see https://host', 'mail a@b, see https://host'],
    ['get https://host/t/tk-1/c now', 'get https://host/t/***/c now'],
    ['"https://u:p@host/a/t/tk-1"', '"https://***@host/a/t/***"'],
    ['https://t/x, https://host/at/x/t', 'https://t/x, https://host/at/x/t'],
    ['https://host?at=/t/x and /t/x, file:///t/x', 'https://host?at=/t/x and /t/x, file:///t/x'],
  ] as const) {
    assert.equal(maskAddresses(text), masked);
  }
});

test('masking takes little time for any text', () => {
  const tokens = ['http://', 'http://t/', 'https://a/t/b/t/', '/t/', 'http:///t/ '];
  for (const text of ['://', '://a', ':', '://@', `://${'a'.repeat(1000)}`, ...tokens]) {
    const long = text.repeat(Math.ceil(2_000_000 / text.length));
    const ms = processorMs(() => maskAddresses(long));
    assert.ok(ms < 500, `${text.slice(0, 10)}: ${ms} ms`);
  }
});
