/** The checker of histories: what it must accept, and what it must refuse. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { checkHistory } from './check-history.ts';
import type { Operation } from './history.ts';

type Times = readonly [start: number, end: number | null];

let clients = 0;
const operation = (kind: Operation['kind'], value: string, [start, end]: Times): Operation => {
  clients += 1;
  return { key: 'tag', client: clients, kind, value, start, end };
};
const write = (value: string, ...times: Times) => operation('write', value, times);
const read = (value: string, ...times: Times) => operation('read', value, times);
const absent = '';
const unknown = null;

const accepted: Readonly<Record<string, readonly Operation[]>> = {
  'reads beside a write': [write('a', 0, 10), read(absent, 5, 6), read('a', 7, 8)],
  'a write of unknown outcome that never happens': [
    ...[write('a', 0, 10), write('b', 20, unknown)],
    ...[read('a', 30, 40), read('a', 1000, 1010)],
  ],
  'a write of unknown outcome that happens much later': [
    ...[write('a', 0, 10), write('b', 20, unknown), read('a', 30, 40)],
    ...[write('c', 50, 60), read('c', 70, 80), read('b', 90, 100)],
  ],
  'deletions of unknown outcome': [
    ...[write('a', 0, 10), write(absent, 20, unknown), read('a', 30, 40), read(absent, 50, 60)],
  ],
  'a write that a proxy repeats while its request lasts': [
    ...[write('a', 0, 100), write('b', 20, 30), read('a', 10, 15), read('b', 40, 50)],
    read('a', 60, 70),
  ],
};

const refused: Readonly<Record<string, readonly Operation[]>> = {
  'a stale read after a completed write': [
    ...[write('a', 0, 10), write('b', 20, 30), read('a', 40, 50)],
  ],
  'a completed write that is lost': [write('a', 0, 10), read(absent, 20, 30)],
  'a value that comes back after its deletion': [
    ...[write('a', 0, 10), write(absent, 20, 30), read('a', 40, 50)],
  ],
  'reads that go back in time': [
    ...[write('a', 0, 10), write('b', 20, unknown), read('b', 30, 40), read('a', 50, 60)],
  ],
  'a value before its write': [read('a', 0, 10), write('a', 20, 30)],
  'a value that nobody wrote': [write('a', 0, 10), read('b', 20, 30)],
};

suite('the checker of histories', () => {
  for (const [name, operations] of Object.entries(accepted)) {
    test(`accepts ${name}`, async () => {
      const report = await checkHistory(operations);
      assert.equal(report.verdict, 'Ok', JSON.stringify(report.failures));
      assert.equal(report.operations, operations.length);
    });
  }

  for (const [name, operations] of Object.entries(refused)) {
    test(`refuses ${name}`, async () => {
      const good = { ...write('x', 0, 1), key: 'other' };
      const { verdict, keys, failures } = await checkHistory([...operations, good]);
      assert.equal(verdict, 'Illegal');
      assert.equal(keys, 2);
      assert.equal(failures.length, 1);
      assert.equal(failures[0]?.key, 'tag');
      assert.ok(failures[0].window.length > 0);
    });
  }

  test('names the operations around the one that cannot be explained', async () => {
    const long = Array.from({ length: 60 }, (_, at) => [
      write(String(at), 100 * at, 100 * at + 10),
      read(String(at === 40 ? 39 : at), 100 * at + 20, 100 * at + 30),
    ]).flat();
    const { failures } = await checkHistory(long);
    const window = failures[0]?.window ?? [];
    assert.ok(
      window.some(({ kind, value, start }) => kind === 'read' && value === '39' && start === 4020),
    );
    assert.ok(window.length < 20);
  });

  test('reads a history of the usual length in time', async () => {
    const history = Array.from({ length: 2000 }, (_, at) => {
      const start = 10 * at;
      return at % 2 ? read(String(at - 1), start, start + 5) : write(String(at), start, start + 15);
    });
    assert.equal((await checkHistory(history)).verdict, 'Ok');
  });
});
