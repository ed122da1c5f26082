import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { SingleFlight, type SingleFlightOptions } from '../src/foundation/single-flight.ts';

/** Work that the test ends. */
function createWork(options?: SingleFlightOptions) {
  const flights = new SingleFlight<string>(options);
  const begun: {
    readonly signal: AbortSignal;
    end(value: string): void;
    fail(error: Error): void;
  }[] = [];
  const work = (signal: AbortSignal): Promise<string> => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    begun.push({ signal, end: resolve, fail: reject });
    signal.addEventListener('abort', () => reject(signal.reason));
    return promise;
  };
  return {
    flights,
    begun,
    /** Joins as a caller that can leave. */
    join(key = '') {
      const leaving = new AbortController();
      const result = flights.run(work, { key, signal: leaving.signal });
      result.catch(() => {});
      return { result, leave: () => leaving.abort(new Error('has left')) };
    },
    run: (key = '') => flights.run(work, { key }),
    runFresh: (key = '') => flights.runFresh(work, { key }),
  };
}

suite('sharing', () => {
  test('work runs once for all callers with the same key, and again for later ones', async () => {
    const { flights, begun, run } = createWork();
    const callers = [run('a'), run('a'), run('b')];
    assert.equal(begun.length, 2, 'it begins at once');
    assert.equal(flights.size, 2);
    begun[0]?.end('first');
    begun[1]?.end('other');
    assert.deepEqual(await Promise.all(callers), ['first', 'first', 'other']);
    assert.equal(flights.has('a'), false);
    const again = run('a');
    assert.equal(flights.has('a'), true);
    begun[2]?.end('second');
    assert.equal(await again, 'second');
  });

  test('all callers share a failure, and the next one tries again', async () => {
    const { begun, run } = createWork();
    const callers = [run(), run()];
    begun[0]?.fail(new Error('broken'));
    for (const caller of callers) await assert.rejects(caller, /broken/);
    const again = run();
    begun[1]?.end('repaired');
    assert.equal(await again, 'repaired');
  });

  test('work that throws at once is over', async () => {
    const flights = new SingleFlight<string>();
    const broken = () => {
      throw new Error('at once');
    };
    await assert.rejects(flights.run(broken), /at once/);
    assert.equal(await flights.run(async () => 'next'), 'next');
  });

  test('who may fail alone runs the work itself where the work of another failed', async () => {
    const { flights, begun, run, join } = createWork({ sharesFailure: false });
    const [first, second, third, left] = [run(), run(), join(), join()];
    left.leave();
    begun[0]?.fail(new Error('no right'));
    await assert.rejects(first, /no right/);
    await assert.rejects(left.result, /has left/);
    await turn();
    assert.equal(begun.length, 2, 'the others share the second run');
    begun[1]?.fail(new Error('no right either'));
    await assert.rejects(second, /no right either/);
    await assert.rejects(third.result, /no right either/);
    assert.equal(flights.size, 0);
    const alone = run();
    begun[2]?.fail(new Error('alone'));
    await assert.rejects(alone, /alone/);
    assert.equal(begun.length, 3, 'its own failure is not tried again');
  });

  test('all that runs is waited for', async () => {
    const { flights, begun, run } = createWork();
    await flights.settled();
    const callers = [run('a'), run('b')];
    let isSettled = false;
    const settled = flights.settled().then(() => {
      isSettled = true;
    });
    begun[0]?.fail(new Error('broken'));
    await assert.rejects(callers[0] ?? Promise.resolve(), /broken/);
    await turn();
    assert.equal(isSettled, false);
    begun[1]?.end('done');
    await settled;
    await callers[1];
  });
});

suite('leaving', () => {
  test('a caller that leaves gets its reason at once, and the others get the result', async () => {
    const { begun, join } = createWork();
    const [one, other] = [join(), join()];
    one.leave();
    await assert.rejects(one.result, /has left/);
    assert.equal(begun[0]?.signal.aborted, false);
    begun[0]?.end('done');
    assert.equal(await other.result, 'done');
  });

  test('the signal of a caller forgets the work', async () => {
    const { signal } = new AbortController();
    await new SingleFlight<void>().run(async () => {}, { signal });
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
  });

  test('the last caller that leaves ends the work, and the next one begins its own', async () => {
    const { flights, begun, join } = createWork();
    const [one, other] = [join(), join()];
    one.leave();
    other.leave();
    assert.equal(begun[0]?.signal.aborted, true);
    assert.match(String(begun[0].signal.reason), /has left/);
    assert.equal(flights.size, 0);
    const next = join();
    assert.equal(begun.length, 2);
    // The end of the first work does not end the second one.
    await turn();
    assert.equal(flights.size, 1);
    begun[1]?.end('done');
    assert.equal(await next.result, 'done');
    assert.equal(begun[1]?.signal.aborted, false);
  });

  test('a caller that cannot leave keeps the work running', async () => {
    const { begun, join, run } = createWork();
    const leaving = join();
    const staying = run();
    leaving.leave();
    assert.equal(begun[0]?.signal.aborted, false);
    begun[0]?.end('done');
    assert.equal(await staying, 'done');
  });

  test('a caller that has left already begins nothing', async () => {
    const flights = new SingleFlight<void>();
    const signal = AbortSignal.abort(new Error('gone before'));
    const begin = () => assert.fail('nobody waits for it');
    await assert.rejects(flights.run(begin, { signal }), /gone before/);
  });

  test('no caller sees a failure after all have left', async () => {
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on('unhandledRejection', note);
    try {
      const { begun, join } = createWork();
      const only = join();
      only.leave();
      begun[0]?.fail(new Error('too late'));
      await assert.rejects(only.result, /has left/);
      for (let count = 0; count < 5; count += 1) await turn();
    } finally {
      process.off('unhandledRejection', note);
    }
    assert.deepEqual(unhandled, []);
  });

  test('a result has an owner: a caller, or work that knows that all have left', async () => {
    // At each of these steps between the end of the work and its result, the caller leaves.
    for (let steps = 0; steps < 12; steps += 1) {
      const leaving = new AbortController();
      let isAborted = false;
      const gate = Promise.withResolvers<void>();
      const flights = new SingleFlight<string>();
      const result = flights.run(
        async signal => {
          await gate.promise;
          signal.addEventListener('abort', () => {
            isAborted = true;
          });
          isAborted = signal.aborted;
          return 'opened';
        },
        { signal: leaving.signal },
      );
      gate.resolve();
      for (let step = 0; step < steps; step += 1) await null;
      leaving.abort();
      const isReceived = await result.then(
        () => true,
        () => false,
      );
      await turn();
      assert.notEqual(isReceived, isAborted, `after ${steps} steps`);
    }
  });

  test('work that lingers is joined by a caller that comes back in time, and else it ends', async () => {
    const { flights, begun, join } = createWork({ lingerMs: 30 });
    const first = join();
    first.leave();
    await assert.rejects(first.result, /has left/);
    assert.equal(flights.size, 1);
    const back = join();
    await new Promise(resolve => setTimeout(resolve, 60));
    assert.equal(begun[0]?.signal.aborted, false);
    back.leave();
    while (flights.size > 0) await turn();
    assert.equal(begun.length, 1);
    assert.equal(begun[0]?.signal.aborted, true);
  });

  test('work that ends while it lingers is not aborted', async () => {
    const { flights, begun, join } = createWork({ lingerMs: 20 });
    join().leave();
    begun[0]?.end('done');
    await turn();
    assert.equal(flights.size, 0);
    const next = join();
    await new Promise(resolve => setTimeout(resolve, 40));
    assert.equal(begun[0]?.signal.aborted, false);
    assert.equal(begun[1]?.signal.aborted, false);
    begun[1]?.end('next');
    assert.equal(await next.result, 'next');
  });
});

suite('a run that joins no earlier work', () => {
  test('no call gets an answer older than itself', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 12 }),
        async (scheduler, keys) => {
          const flights = new SingleFlight<number>();
          let clock = 0;
          const running = new Map<string, number>();
          const run = (key: string) => async () => {
            clock += 1;
            const began = clock;
            running.set(key, (running.get(key) ?? 0) + 1);
            assert.equal(running.get(key), 1, 'one for each key at a time');
            await scheduler.schedule(Promise.resolve(), `run ${key}`);
            running.set(key, 0);
            return began;
          };
          const responses = keys.map((key, at) =>
            scheduler.schedule(Promise.resolve(), `call ${at}`).then(async () => {
              clock += 1;
              const asked = clock;
              const began = await flights.runFresh(run(key), { key });
              assert.ok(began > asked, 'the value was read after the call');
            }),
          );
          await scheduler.waitFor(Promise.all(responses));
        },
      ),
    );
  });

  test('all calls that come while work runs share the next run, also after a failure', async () => {
    const { flights, begun, run, runFresh } = createWork();
    const first = run();
    const others = [runFresh(), runFresh(), runFresh()];
    begun[0]?.fail(new Error('broken'));
    await assert.rejects(first, /broken/);
    await turn();
    assert.equal(begun.length, 2);
    begun[1]?.end('second');
    assert.deepEqual(await Promise.all(others), ['second', 'second', 'second']);
    const last = runFresh();
    begun[2]?.end('third');
    assert.equal(await last, 'third');
    assert.equal(await flights.runFresh(async () => 'for all callers'), 'for all callers');
  });

  test('a caller that leaves while it waits for the next run does not run it', async () => {
    const { flights, begun, run } = createWork();
    const first = run();
    const leaving = new AbortController();
    const begin = () => assert.fail('nobody waits for it');
    const waiting = flights.runFresh(begin, { signal: leaving.signal });
    leaving.abort(new Error('has left'));
    await assert.rejects(waiting, /has left/);
    begun[0]?.end('done');
    assert.equal(await first, 'done');
    await turn();
    assert.equal(flights.size, 0);
  });
});
