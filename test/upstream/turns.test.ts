import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { Turns } from '../../src/upstream/transport/turns.ts';

const longMs = 60_000;

test('the number of turns is limited, and the others follow in the order of arrival', async () => {
  const turns = new Turns(2);
  const order: string[] = [];
  const [first, second] = [await turns.take('a', longMs), await turns.take('a', longMs)];
  const third = turns.take('a', longMs).then(end => {
    order.push('third');
    return end;
  });
  const fourth = turns.take('a', longMs).then(end => {
    order.push('fourth');
    return end;
  });
  (await turns.take('b', longMs))();
  assert.deepEqual(order, []);
  first();
  // A second call ends nothing.
  first();
  const endThird = await third;
  assert.deepEqual(order, ['third']);
  second();
  const endFourth = await fourth;
  endThird();
  endFourth();
  assert.deepEqual(order, ['third', 'fourth']);
  for (const end of [await turns.take('a', 0), await turns.take('a', 0)]) end();
});

test('a caller who waits in vain, or disconnects, is refused without using a turn', async () => {
  const turns = new Turns(1);
  const end = await turns.take('a', longMs);
  await assert.rejects(turns.take('a', 1), error => {
    assert.ok(error instanceof Fault);
    assert.equal(error.status, 503);
    assert.match(error.message, /upstream\.connections/);
    return true;
  });
  const leaving = new AbortController();
  const left = turns.take('a', longMs, leaving.signal);
  leaving.abort();
  await assert.rejects(left);
  end();
  (await turns.take('a', 1))();
});

test('a turn that arrives at the moment its waiter disconnects is passed on', async () => {
  const turns = new Turns(1);
  const end = await turns.take('a', longMs);
  const leaving = new AbortController();
  const left = turns.take('a', longMs, leaving.signal).then(
    taken => taken(),
    () => {},
  );
  end();
  leaving.abort();
  await left;
  (await turns.take('a', 1))();
});
