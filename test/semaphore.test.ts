import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { Fault } from '../src/foundation/fault.ts';
import {
  type Permit,
  type Place,
  Semaphore,
  type SemaphoreOptions,
  workOnEach,
} from '../src/foundation/semaphore.ts';

const refusal = ({ key = 'nobody', waitMs }: Place) =>
  new Fault('unavailable', `no place for ${key} in ${waitMs} ms`, { phase: 'limit' });

/** Callers of a semaphore, by name. A name may be used several times. */
function createCallers(options: SemaphoreOptions) {
  const semaphore = new Semaphore(options);
  const holding: { readonly name: string; readonly permit: Permit }[] = [];
  const served: string[] = [];
  return {
    semaphore,
    /** The names of all that were served, in their order. */
    served,
    /** The names of those that hold a permit now. */
    holding: () => holding.map(({ name }) => name),
    /** Wants a permit. Its first letter is the key. */
    want(name: string, place: Place = {}) {
      const taking = semaphore.take({ key: name.slice(0, 1), ...place }).then(permit => {
        served.push(name);
        holding.push({ name, permit });
      });
      // Those who wait for it get the error.
      taking.catch(() => {});
      return taking;
    },
    /** Returns the oldest permit, or that of a caller. */
    async end(name = holding[0]?.name) {
      const at = holding.findIndex(one => one.name === name);
      assert.ok(at >= 0, `${name} holds a permit`);
      holding.splice(at, 1)[0]?.permit[Symbol.dispose]();
      await turn();
    },
  };
}

suite('order', () => {
  test('callers of one key are served in the order in which they came', async () => {
    const { semaphore } = createCallers({ limit: 3 });
    let [running, most] = [0, 0];
    const order: number[] = [];
    const works = Array.from({ length: 2000 }, (_, at) =>
      semaphore.run(async () => {
        order.push(at);
        running += 1;
        most = Math.max(most, running);
        await null;
        running -= 1;
        if (at % 100 === 7) throw new Error('this work fails');
        return at;
      }),
    );
    assert.equal(semaphore.waiting, 1997);
    const results = await Promise.allSettled(works);
    assert.equal(most, 3);
    assert.deepEqual(
      order,
      [...order].sort((one, other) => one - other),
    );
    assert.equal(results.filter(({ status }) => status === 'rejected').length, 20);
    assert.equal(semaphore.waiting, 0);
    assert.equal(await semaphore.run(async () => 'after'), 'after');
  });

  test('work begins at once where a permit is free', () => {
    let hasBegun = false;
    void new Semaphore({ limit: 1 }).run(async () => {
      hasBegun = true;
    });
    assert.equal(hasBegun, true);
  });

  test('keys take turns, whoever came first with however much', async () => {
    const { want, end, served } = createCallers({ limit: 1 });
    for (const name of ['first', 'a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2']) void want(name);
    for (let count = 0; count < 7; count += 1) {
      await turn();
      await end();
    }
    assert.deepEqual(served.slice(1), ['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
  });

  test('a permit goes to the key that holds the fewest', async () => {
    const { want, end, holding } = createCallers({ limit: 4 });
    for (const name of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'd1']) void want(name);
    await turn();
    await end('c1');
    assert.deepEqual(holding(), ['a1', 'a2', 'b1', 'd1']);
    await end('a1');
    assert.deepEqual(
      holding(),
      ['a2', 'b1', 'd1', 'b2'],
      'both hold one, and it was the turn of b',
    );
  });

  test('no new caller overtakes one that waits, and a permit is passed on directly', async () => {
    const semaphore = new Semaphore({ limit: 1 });
    const first = await semaphore.take();
    const order: string[] = [];
    const second = semaphore.run(async () => order.push('second'));
    first[Symbol.dispose]();
    const third = semaphore.run(async () => order.push('third'));
    await Promise.all([second, third]);
    assert.deepEqual(order, ['second', 'third']);
  });
});

suite('limits', () => {
  test('a key holds at most its share, and others pass', async () => {
    const { want, end, holding } = createCallers({ perKey: 2 });
    for (const name of ['a1', 'a2', 'a3', 'b1', 'b2', 'b3']) void want(name);
    await turn();
    assert.deepEqual(holding(), ['a1', 'a2', 'b1', 'b2']);
    await end('b1');
    assert.deepEqual(holding(), ['a1', 'a2', 'b2', 'b3']);
    void want('c1');
    await turn();
    assert.deepEqual(holding(), ['a1', 'a2', 'b2', 'b3', 'c1']);
    await end('a1');
    await end('a2');
    void want('a4');
    void want('a5');
    await turn();
    assert.deepEqual(
      holding(),
      ['b2', 'b3', 'c1', 'a3', 'a4'],
      'what a key holds is not forgotten',
    );
  });

  test('heavy callers wait for room, and light ones do not overtake them', async () => {
    const { want, end, holding } = createCallers({ limit: 10 });
    for (const [name, weight] of [
      ['x1', 4],
      ['x2', 6],
      ['x3', 10],
      ['x4', 1],
    ] as const) {
      void want(name, { weight });
    }
    await turn();
    assert.deepEqual(holding(), ['x1', 'x2']);
    await end('x1');
    assert.deepEqual(holding(), ['x2'], 'four would be free for one');
    await end('x2');
    assert.deepEqual(holding(), ['x3']);
    await end('x3');
    assert.deepEqual(holding(), ['x4']);
  });

  test('a caller that wants more than all gets all', async () => {
    const { want, end, holding } = createCallers({ limit: 3, perKey: 2 });
    void want('a1', { weight: 5 });
    void want('b1');
    void want('b2');
    await turn();
    assert.deepEqual(holding(), ['a1', 'b1'], 'all that one key may hold');
    await end('a1');
    assert.deepEqual(holding(), ['b1', 'b2']);
  });

  test('a permit is returned once', async () => {
    const semaphore = new Semaphore({ limit: 1 });
    const first = await semaphore.take();
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    using _second = await semaphore.take();
    const third = semaphore.take();
    assert.equal(semaphore.waiting, 1);
    assert.equal(await Promise.race([third, turn('waits')]), 'waits');
  });

  test('a full queue refuses, for all keys and for one', async () => {
    const { want, end, semaphore } = createCallers({
      limit: 2,
      mostWaiting: 5,
      mostWaitingPerKey: 3,
      refusal,
    });
    const names = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'b2', 'c1'];
    const waiting = names.map(name => want(name));
    assert.equal(semaphore.waiting, 5);
    await assert.rejects(waiting[5] ?? Promise.resolve(), /no place for a/);
    await assert.rejects(waiting[8] ?? Promise.resolve(), /no place for c/);
    assert.equal(semaphore.waiting, 5);
    await end('a1');
    await end('a2');
    void want('a7');
    await turn();
    assert.equal(semaphore.waiting, 4, 'one of a is served, and leaves a place');
  });

  test('a full queue admits a caller that need not wait', async () => {
    const { want, served } = createCallers({ perKey: 1, mostWaiting: 1, refusal });
    for (const name of ['a1', 'a2', 'b1']) void want(name);
    await assert.rejects(want('a3'), /no place/);
    assert.deepEqual(served, ['a1', 'b1']);
  });
});

suite('leaving', () => {
  test('a caller that leaves the queue gets no permit, and none is lost', async () => {
    const { want, end, served, semaphore } = createCallers({ limit: 1 });
    const leaving = new AbortController();
    const { signal } = leaving;
    void want('a1');
    const left = [want('b1', { signal }), want('a2', { signal })];
    void want('c1');
    leaving.abort(new Error('gone'));
    for (const one of left) await assert.rejects(one, /gone/);
    await assert.rejects(want('d1', { signal }), /gone/);
    assert.equal(semaphore.waiting, 1);
    await end();
    assert.deepEqual(served, ['a1', 'c1']);
    await end();
    await want('e1');
  });

  test('any caller of a key may leave', async () => {
    for (const leaver of [0, 1, 2, 3]) {
      const { want, end, served } = createCallers({ limit: 1 });
      await want('held');
      const leaving = Array.from({ length: 4 }, () => new AbortController());
      for (const [at, { signal }] of leaving.entries()) void want(`x${at}`, { signal });
      leaving[leaver]?.abort();
      void want('x4');
      for (let count = 0; count < 4; count += 1) await end();
      const rest = ['x0', 'x1', 'x2', 'x3', 'x4'].filter(name => name !== `x${leaver}`);
      assert.deepEqual(served.slice(1), rest);
    }
  });

  test('those behind a heavy caller are served when it leaves', async () => {
    const { want, holding } = createCallers({ limit: 2 });
    const leaving = new AbortController();
    for (const [name, place] of [
      ['x1', {}],
      ['x2', { weight: 2, signal: leaving.signal }],
      ['x3', {}],
    ] as const) {
      void want(name, place);
    }
    await turn();
    assert.deepEqual(holding(), ['x1']);
    leaving.abort();
    await turn();
    assert.deepEqual(holding(), ['x1', 'x3']);
  });

  test('a permit that comes at the moment its caller leaves is not lost', async () => {
    const semaphore = new Semaphore({ limit: 1 });
    const first = await semaphore.take();
    const leaving = new AbortController();
    const taking = semaphore.take({ signal: leaving.signal, waitMs: 1000 });
    const behind = semaphore.take();
    first[Symbol.dispose]();
    leaving.abort();
    assert.equal(semaphore.waiting, 1);
    (await taking)[Symbol.dispose]();
    assert.deepEqual(getEventListeners(leaving.signal, 'abort'), []);
    await behind;
  });

  test('work that runs goes on when its caller leaves', async () => {
    const semaphore = new Semaphore({ limit: 1 });
    const leaving = new AbortController();
    const gate = Promise.withResolvers<string>();
    const running = semaphore.run(() => gate.promise, { signal: leaving.signal });
    leaving.abort();
    const next = semaphore.run(async () => 'next');
    assert.equal(semaphore.waiting, 1);
    gate.resolve('done');
    assert.equal(await running, 'done');
    assert.equal(await next, 'next');
  });

  test('a caller whose turn does not come in time is refused, and takes nothing', async () => {
    const { want, end, served } = createCallers({ limit: 1, refusal });
    await want('a1');
    await assert.rejects(want('b1', { waitMs: 1 }), /no place for b in 1 ms/);
    await assert.rejects(new Semaphore({ limit: 0 }).take({ waitMs: 1 }), /no turn came in time/);
    void want('c1', { waitMs: 10_000 });
    await end();
    assert.deepEqual(served, ['a1', 'c1']);
  });
});

suite('priorities', () => {
  const low = { isLow: true };

  test('callers of low priority go last, and hold at most their share', async () => {
    const { want, end, holding } = createCallers({ limit: 3, low: { limit: 2, passedBy: 100 } });
    for (const name of ['x1', 'x2', 'x3']) void want(name, low);
    void want('a1');
    await turn();
    assert.deepEqual(holding(), ['x1', 'x2', 'a1'], 'the third waits, and holds nobody up');
    void want('b1');
    await end('x1');
    assert.deepEqual(holding(), ['x2', 'a1', 'b1']);
    await end('a1');
    assert.deepEqual(holding(), ['x2', 'b1', 'x3']);
  });

  test('a share of nothing admits nobody', async () => {
    const { want, holding, semaphore } = createCallers({
      limit: 1,
      low: { limit: 0, passedBy: 0 },
    });
    void want('x1', low);
    await turn();
    assert.deepEqual(holding(), []);
    void want('a1');
    await turn();
    assert.deepEqual(holding(), ['a1']);
    assert.equal(semaphore.waiting, 1);
  });

  test('where others always wait, one of low priority passes after some of them, and some of its time', async () => {
    let clock = 0;
    const { want, end, served } = createCallers({
      limit: 1,
      low: { limit: 1, passedBy: 3 },
      now: () => clock,
    });
    for (const name of ['a', 'x1', 'x2']) void want(name, name === 'a' ? {} : low);
    for (let count = 0; count < 14; count += 1) {
      void want(`b${count}`);
      await turn();
      // Work of low priority takes twenty, other work takes ten.
      clock += served.at(-1)?.startsWith('x') ? 20 : 10;
      await end();
    }
    const places = served.flatMap((name, at) => (name.startsWith('x') ? [at] : []));
    // One is held, three pass. Then sixty of time, which are six others.
    assert.deepEqual(places, [4, 11]);
  });

  test('while one of low priority holds a permit, others do not count as passing', async () => {
    const { want, end, served } = createCallers({
      limit: 2,
      low: { limit: 1, passedBy: 2 },
      now: () => 0,
    });
    void want('x1', low);
    void want('x2', low);
    for (let count = 0; count < 8; count += 1) void want(`a${count}`);
    await turn();
    for (let count = 0; count < 4; count += 1) await end(served.at(-1));
    assert.deepEqual(served, ['x1', 'a0', 'a1', 'a2', 'a3', 'a4']);
    await end('x1');
    for (let count = 0; count < 3; count += 1) await end(served.at(-1));
    assert.deepEqual(served.slice(6), ['a5', 'a6', 'x2', 'a7']);
  });
});

test('whatever callers do, the limits hold, and each of them is served or has left', async () => {
  const action = fc.record({
    key: fc.constantFrom('a', 'b', 'c'),
    weight: fc.integer({ min: 1, max: 3 }),
    isLow: fc.boolean(),
    leaves: fc.constantFrom('at once', 'later', 'never'),
    gives: fc.nat(3),
  });
  const limits = fc.record({
    limit: fc.integer({ min: 1, max: 4 }),
    perKey: fc.integer({ min: 1, max: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(limits, fc.array(action), async ({ limit, perKey }, actions) => {
      const semaphore = new Semaphore({ limit, perKey, low: { limit, passedBy: 2 } });
      const held: { amount: number; name: string; permit: Permit }[] = [];
      let [served, gone] = [0, 0];
      const check = () => {
        const sum = (some: typeof held) => some.reduce((all, { amount }) => all + amount, 0);
        assert.ok(sum(held) <= limit);
        for (const name of new Set(held.map(one => one.name))) {
          assert.ok(sum(held.filter(one => one.name === name)) <= perKey);
        }
      };
      const late: AbortController[] = [];
      for (const { gives, leaves, ...place } of actions) {
        const leaving = new AbortController();
        const amount = Math.min(place.weight, limit, perKey);
        semaphore.take({ ...place, signal: leaving.signal }).then(
          permit => {
            served += 1;
            held.push({ amount, name: `${place.key} ${place.isLow}`, permit });
          },
          () => {
            gone += 1;
          },
        );
        if (leaves === 'at once') leaving.abort();
        if (leaves === 'later') late.push(leaving);
        await turn();
        check();
        for (const { permit } of held.splice(0, gives)) permit[Symbol.dispose]();
        if (gives === 0) late.shift()?.abort();
        await turn();
        check();
      }
      while (held.length > 0) {
        held.pop()?.permit[Symbol.dispose]();
        await turn();
        check();
      }
      assert.equal(served + gone, actions.length);
      assert.equal(semaphore.waiting, 0);
      // Nothing is held any more.
      await semaphore.take({ weight: limit });
    }),
    { numRuns: 100 },
  );
});

suite('work on each item', () => {
  test('takes items only when their work may begin', async () => {
    let taken = 0;
    let done = 0;
    let most = 0;
    const items = function* () {
      for (; taken < 100; taken += 1) {
        most = Math.max(most, taken - done);
        yield taken;
      }
    };
    await workOnEach(items(), 8, async () => {
      await new Promise(resolve => setImmediate(resolve));
      done += 1;
    });
    assert.equal(done, 100);
    assert.equal(most, 7, 'one item is taken while seven are worked on');
  });

  test('reports a failure that comes while the next item is awaited', async () => {
    const failed = Promise.withResolvers<void>();
    const begun: string[] = [];
    const items = async function* () {
      yield 'bad';
      await failed.promise;
      // Handlers of the failure run first.
      await new Promise(resolve => setImmediate(resolve));
      yield 'next';
    };
    const working = workOnEach(items(), 8, async item => {
      begun.push(item);
      failed.resolve();
      throw new Error(`${item} fails`);
    });
    await assert.rejects(working, /bad fails/);
    assert.deepEqual(begun, ['bad']);
  });

  test('takes no further item after a failure of the work that it waited for', async () => {
    let taken = 0;
    const items = function* () {
      for (;;) {
        taken += 1;
        yield taken;
      }
    };
    const working = workOnEach(items(), 1, async () => {
      throw new Error('it fails');
    });
    await assert.rejects(working, /it fails/);
    assert.equal(taken, 1);
  });

  test('ends only after the begun work, also when there are no more items', async () => {
    const slow = Promise.withResolvers<void>();
    let isDone = false;
    const items = function* () {
      yield 1;
      throw new Error('no more items');
    };
    const working = workOnEach(items(), 8, async () => {
      await slow.promise;
      isDone = true;
    });
    setImmediate(slow.resolve);
    await assert.rejects(working, /no more items/);
    assert.equal(isDone, true);
  });
});
