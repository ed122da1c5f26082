import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createCoalescer } from '../../src/images/bases/coalesce.ts';

test('no call gets an answer older than itself', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 12 }),
      async (scheduler, keys) => {
        const join = createCoalescer<number>();
        let clock = 0;
        let running = 0;
        const run = (key: string) => async () => {
          clock += 1;
          const began = clock;
          running += 1;
          assert.ok(running <= 2, 'one for each key at a time');
          await scheduler.schedule(Promise.resolve(), `run ${key}`);
          running -= 1;
          return began;
        };
        const answers = keys.map((key, at) =>
          scheduler.schedule(Promise.resolve(), `call ${at}`).then(async () => {
            clock += 1;
            const asked = clock;
            const began = await join(key, run(key));
            assert.ok(began > asked, 'the value was read after the call');
          }),
        );
        await scheduler.waitFor(Promise.all(answers));
      },
    ),
  );
});

test('all calls that arrive during one run share the next', async () => {
  const join = createCoalescer<number>();
  let runs = 0;
  const gate = Promise.withResolvers<void>();
  const run = async () => {
    runs += 1;
    const own = runs;
    if (own === 1) await gate.promise;
    return own;
  };
  const first = join('key', run);
  const others = [join('key', run), join('key', run), join('key', run)];
  gate.resolve();
  assert.equal(await first, 1);
  assert.deepEqual(await Promise.all(others), [2, 2, 2]);
  assert.equal(await join('key', run), 3);
});

test('a failure goes to the calls that share it, not to later ones', async () => {
  const join = createCoalescer<string>();
  let runs = 0;
  const run = async () => {
    runs += 1;
    if (runs < 3) throw new Error(`run ${runs}`);
    return 'ok';
  };
  const first = join('key', run);
  const second = join('key', run);
  const third = join('key', run);
  await assert.rejects(first, /run 1/);
  await assert.rejects(second, /run 2/);
  await assert.rejects(third, /run 2/);
  assert.equal(await join('key', run), 'ok');
});
