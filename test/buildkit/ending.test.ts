/** Builds that end early, and builders that disappear. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { build, connect } from '../../src/buildkit/index.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { buildkitVersion } from '../world/tools.ts';
import { type BuildWorld, failureOf, type LoggedRun, startBuildWorld } from './build-world.ts';

// For events that must happen at once: long enough for a busy machine, far shorter than the sleep.
const soonMs = 30_000;
// Half of the time limit of a builder query.
const shortMs = 5_000;

/**
 * Starts a build that sleeps longer than any test; `asleep` resolves once it sleeps. Returns the reason of its failure.
 */
function startSleeper(world: BuildWorld, run: LoggedRun = {}) {
  const dockerfile = `FROM ${world.base}\nRUN sleep 987\n`;
  const failure = failureOf(world.build({ dockerfile, noCache: true }, run));
  // At first the process is that of runc.
  const isAsleep = async () => {
    const processes = await world.buildkitd.containerProcesses();
    const commands = processes.map(id => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => ''));
    return (await Promise.all(commands)).some(command => command.includes('987'));
  };
  return { failure, asleep: () => eventually('it sleeps', isAsleep, 60_000) };
}

/** Waits until no container has a running process. */
function allGone({ buildkitd }: BuildWorld): Promise<void> {
  const isEmpty = async () => (await buildkitd.containerProcesses()).length === 0;
  return eventually('all containers have ended', isEmpty, soonMs);
}

/** Returns the duration in ms. */
async function timed<T>(work: () => Promise<T>): Promise<[T, number]> {
  const started = performance.now();
  const value = await work();
  return [value, performance.now() - started];
}

suite('ending', { concurrency: 2 }, () => {
  test('a signal cancels the build and ends its container', async () => {
    await using world = await startBuildWorld();
    const controller = new AbortController();
    const log: string[] = [];
    const { failure, asleep } = startSleeper(world, { signal: controller.signal, log });
    await asleep();
    controller.abort();
    const [error, ms] = await timed(() => failure);
    assert.equal(error.kind, 'cancelled');
    await allGone(world);
    assert.ok(ms < soonMs, `${ms} ms`);
    assert.match(log.join(''), /CANCELED/);
    const again = await world.build({ dockerfile: `FROM ${world.base}\nRUN true\n` });
    assert.equal(again.steps.total, 2, 'the client and the builder go on');
  });

  test('a signal that is aborted before the build, and one aborted after it', async () => {
    await using world = await startBuildWorld();
    const options = { dockerfile: `FROM ${world.base}\n` };
    const before = { signal: AbortSignal.abort() };
    assert.equal((await failureOf(world.build(options, before))).kind, 'cancelled');
    const late = new AbortController();
    await world.build(options, { signal: late.signal });
    late.abort();
  });

  test('a time limit ends the build', async () => {
    await using world = await startBuildWorld();
    const [error, ms] = await timed(() => startSleeper(world, { timeoutMs: 700 }).failure);
    assert.equal(error.kind, 'timeout');
    assert.match(error.message, /longer than 0.7 s/);
    assert.ok(ms < soonMs, `${ms} ms`);
    await allGone(world);
  });

  test('a killed builder, and a new one at its address', async () => {
    await using world = await startBuildWorld();
    const { failure, asleep } = startSleeper(world);
    await asleep();
    world.buildkitd.signal('SIGKILL');
    const [error, ms] = await timed(() => failure);
    assert.equal(error.kind, 'unavailable');
    assert.match(error.message, /unix:\/\//);
    assert.ok(ms < soonMs, `${ms} ms`);
    await world.buildkitd.ended;
    const [gone, goneMs] = await timed(() => failureOf(world.client.info()));
    assert.equal(gone.kind, 'unavailable');
    assert.ok(goneMs < shortMs, `${goneMs} ms`);
  });

  test('a builder that receives SIGTERM during a build', async () => {
    await using world = await startBuildWorld();
    const { failure, asleep } = startSleeper(world);
    await asleep();
    const stopping = world.buildkitd.stop();
    assert.equal((await failure).kind, 'unavailable');
    await stopping;
  });

  test('a hanging builder is detected', async t => {
    await using world = await startBuildWorld();
    const client = connect(world.buildkitd.address, {
      keepalive: { timeMs: 1_000, timeoutMs: 10_000 },
    });
    t.after(() => client.close());
    const { failure, asleep } = startSleeper({ ...world, build: (o, r) => build(client, o, r) });
    await asleep();
    world.buildkitd.signal('SIGSTOP');
    const [error, ms] = await timed(() => failure);
    assert.equal(error.kind, 'unavailable');
    assert.ok(ms < soonMs, `${ms} ms`);
    assert.equal((await failureOf(client.info({ timeoutMs: 300 }))).kind, 'timeout');
    world.buildkitd.signal('SIGCONT');
  });

  test('a lost session ends the build at once', async () => {
    await using world = await startBuildWorld();
    const { builds } = await world.client.open();
    const open = builds.makeBidiStreamRequest.bind(builds);
    const calls: { cancel(): void }[] = [];
    Object.assign(builds, {
      makeBidiStreamRequest(...args: Parameters<typeof open>) {
        const call = open(...args);
        calls.push(call);
        return call;
      },
    });
    const { failure, asleep } = startSleeper(world);
    await asleep();
    for (const call of calls) call.cancel();
    const [error, ms] = await timed(() => failure);
    assert.equal(error.kind, 'session');
    assert.ok(ms < soonMs, `${ms} ms`);
    await allGone(world);
  });

  test('a closed client', async t => {
    await using world = await startBuildWorld();
    const client = connect(world.buildkitd.address);
    t.after(() => client.close());
    const { failure, asleep } = startSleeper({ ...world, build: (o, r) => build(client, o, r) });
    await asleep();
    client.close();
    const [error, ms] = await timed(() => failure);
    assert.equal(error.kind, 'cancelled');
    assert.ok(ms < soonMs, `${ms} ms`);
    await allGone(world);
    assert.equal((await failureOf(client.info())).kind, 'cancelled');
  });

  test('twenty simultaneous builds on one client do not mix', async () => {
    await using world = await startBuildWorld();
    const numbers = Array.from({ length: 20 }, (_, index) => index);
    const texts = await Promise.all(
      numbers.map(async number => {
        let text = '';
        await build(
          world.client,
          { dockerfile: `FROM ${world.base}\nRUN echo this is ${number}.\n` },
          {
            onProgress({ logs }) {
              for (const log of logs) text += log.text;
            },
          },
        );
        return text;
      }),
    );
    assert.deepEqual(
      texts,
      numbers.map(number => `this is ${number}.\n`),
    );
  });

  test('builder queries: version, disk usage, and pruning', async () => {
    await using world = await startBuildWorld();
    assert.equal((await world.client.info()).version, `v${buildkitVersion}`);
    const [worker] = await world.client.listWorkers();
    assert.ok(worker?.platforms.includes('linux/amd64'));
    await world.build({ dockerfile: `FROM ${world.base}\nRUN echo x > /x\n` });
    const kept = await world.client.diskUsage();
    const sources = await world.client.diskUsage(['type==source.local']);
    assert.ok(kept.length > sources.length && sources.length > 0);
    assert.ok(sources.every(({ type }) => type === 'source.local'));
    const gone = await world.client.prune({ all: true });
    assert.ok(gone.length > 0);
    assert.deepEqual(await world.client.diskUsage(), []);
    assert.equal((await failureOf(world.client.diskUsage(['bad==='])))?.kind, 'other');
    const signal = AbortSignal.abort();
    assert.equal((await failureOf(world.client.info({ signal }))).kind, 'cancelled');
  });

  test('a builder that does not allow an entitlement of the build', async t => {
    await using buildkitd = await startBuildkitd({ entitlements: [] });
    const client = connect(buildkitd.address);
    t.after(() => client.close());
    const options = { dockerfile: 'FROM scratch\n', network: 'host' as const };
    const error = await failureOf(build(client, options));
    assert.equal(error.kind, 'other');
    assert.match(error.message, /network.host is not allowed/);
  });
});
