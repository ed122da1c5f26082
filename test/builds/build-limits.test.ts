import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BuilderLost } from '../../src/builds/builder/builder-refusals.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { ask, idOf, runningAre, startBench } from './build-bench.ts';

const patienceMs = 30_000;

test('a build that fails without a fault of its caller is not counted', async () => {
  await using world = await startBench();
  const counted = async (key: string, failure: unknown): Promise<number> => {
    let count = 0;
    const onBegin = () => {
      count += 1;
      return () => {
        count -= 1;
      };
    };
    const id = idOf(await ask(world, key, 'somebody', onBegin));
    await runningAre(world, [key]);
    world.running[0]?.fail(failure);
    await world.builds.settled(id, patienceMs);
    return count;
  };
  const lost = (hadBegun: boolean) =>
    new Fault('unavailable', 'no builder answers', {
      cause: new BuilderLost('no builder answers', hadBegun),
    });
  assert.equal(await counted('recipe', new Fault('bad-request', 'it is wrong')), 1);
  assert.equal(await counted('killer', lost(true)), 1, 'the build may have killed its builder');
  assert.equal(await counted('silent', lost(false)), 0);
  assert.equal(await counted('unexpected', new TypeError('x is not a function')), 0);
});
