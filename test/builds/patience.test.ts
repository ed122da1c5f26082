/** Builds that lose their builder, or the storage of the service. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BuilderLost } from '../../src/builds/builder/builder-refusals.ts';
import { asBaseLost } from '../../src/builds/solve/solve.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { ask, idOf, made, startBench } from './build-bench.ts';

// The expected state comes much sooner, except on a busy machine.
const patienceMs = 30_000;

test('a lost builder is retried, a failing recipe is not', async () => {
  let tries = 0;
  await using world = await startBench({
    async solve({ plan }) {
      tries += 1;
      if (plan.key === 'wrong') throw new Fault('bad-request', 'it is wrong');
      if (tries === 1) throw new BuilderLost('The builder went away', true);
      return made;
    },
  });
  const lost = idOf(await ask(world, 'lost'));
  assert.equal((await world.builds.settled(lost, patienceMs)).succeeded, true);
  assert.match(await world.logOf(lost), /The builder went away: trying again/);
  assert.equal(tries, 2);
  const wrong = idOf(await ask(world, 'wrong'));
  assert.equal((await world.builds.settled(wrong, patienceMs)).reason, 'it is wrong');
  assert.equal(tries, 3);
});

test('a build survives a database and an object store that are away for a moment', async () => {
  let tries = 0;
  let refused = 0;
  const away = () => new Fault('unavailable', 'it does not answer', { phase: 'store' });
  await using world = await startBench({
    async solve() {
      tries += 1;
      if (tries === 1) throw away();
      return made;
    },
  });
  for (const name of ['start', 'finish'] as const) {
    const { store } = world;
    const real = store[name] as (...given: unknown[]) => Promise<void>;
    let isAway = true;
    Object.assign(store, {
      async [name](...given: unknown[]) {
        refused += Number(isAway);
        if (isAway) {
          isAway = false;
          throw away();
        }
        return real(...given);
      },
    });
  }
  const id = idOf(await ask(world, 'one'));
  assert.equal((await world.builds.settled(id, patienceMs)).succeeded, true);
  assert.match(await world.logOf(id), /The storage of the service does not answer: trying again/);
  assert.deepEqual({ tries, refused }, { tries: 2, refused: 2 });
});

test('a build that ends its builder every time is not retried forever', async () => {
  let tries = 0;
  await using world = await startBench({
    async solve() {
      tries += 1;
      throw new BuilderLost('The builder went away', true);
    },
  });
  const id = idOf(await ask(world, 'one'));
  const over = await world.builds.settled(id, patienceMs);
  assert.equal(over.reason, 'The builder went away (tried 3 times): try again later');
  assert.equal(tries, 3);
});

test('a verified base that this server could not deliver is a failure of the storage', () => {
  const image = '127.0.0.1:1/library/busybox:1';
  const failed = `a base image is unavailable (Dockerfile, line 1): ${image}: failed to resolve source metadata for ${image}: `;
  const opened = `${failed}failed to copy: httpReadSeeker: failed open: `;
  const kindOf = (message: string) => {
    const error = asBaseLost(new Fault('bad-request', message));
    return error instanceof Fault ? `${error.kind} ${error.phase}` : undefined;
  };
  // The build's token is in the memory of another replica.
  const octets = 'unexpected media type application/octet-stream for sha256:ab: not found';
  assert.equal(kindOf(failed + octets), 'unavailable store');
  const unknown = `content at http://127.0.0.1:2/v2/${image}/manifests/sha256:ab not found: not found`;
  assert.equal(kindOf(opened + unknown), 'unavailable store');
  assert.equal(kindOf(`${opened}unexpected status: 503 Service Unavailable`), 'unavailable store');
  assert.equal(kindOf(`${failed}unexpected status: 403 Forbidden`), 'bad-request undefined');
  assert.equal(kindOf(`${image}: not found`), 'bad-request undefined');
});
