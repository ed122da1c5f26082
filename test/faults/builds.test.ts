/** Failures of a build: its state, the message to its user, and its log. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { failureText } from '../../src/builds/runs/build-outcomes.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, type BuildkitdOptions, startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';

const mebibyte = 1024 * 1024;

interface Details {
  readonly status: string;
  readonly succeeded?: boolean;
  readonly phase?: string;
  readonly waitsFor?: string;
  readonly reason?: string;
}

/** A server with its own builder, and its builds. */
interface BuildWorld extends AsyncDisposable {
  readonly sluice: Sluice;
  readonly buildkitd: Buildkitd;
  begin(dockerfile: string): Promise<Begun>;
}

interface Begun {
  readonly id: string;
  readonly targetImage: string;
  details(): Promise<Details>;
  /** Returns the reason, after checking that details, log and pull have the same. */
  failure(): Promise<string>;
}

suite('builds that fail', { concurrency: 3 }, () => {
  let registry: Registry;
  let base: string;
  before(async () => {
    registry = await startRegistry();
    const pushed = await pushCorpus(registry, ['busybox:oci']);
    base = pushed.get('busybox:oci')?.reference ?? '';
  });
  after(() => registry?.stop());

  const startWorld = async (
    options: BuildkitdOptions = {},
    builds: object = {},
  ): Promise<BuildWorld> => {
    await using stack = new AsyncDisposableStack();
    const buildkitd = stack.use(await startBuildkitd(options));
    const sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
        builds,
      },
    });
    stack.use(sluice);
    const whole = stack.move();
    const text = async (path: string) => (await sluice.fetch(path)).text();
    return {
      sluice,
      buildkitd,
      async begin(dockerfile) {
        const { buildId: id, targetImage } = (await sluice.request({
          containerFile: Buffer.from(dockerfile).toString('base64'),
        })) as ContainerResponse & { buildId: string };
        const path = `/v1alpha1/builds/${id}`;
        const details = async () => JSON.parse(await text(path)) as Details;
        return {
          id,
          targetImage,
          details,
          async failure() {
            const tag = targetImage.split(':').at(-1);
            const pull = await fetch(sluice.at(targetImage, `manifests/${tag}`));
            const { errors } = (await pull.json()) as { errors: { message: string }[] };
            assert.equal(pull.status, 400);
            const { status, succeeded, phase, reason = '' } = await details();
            assert.deepEqual([status, succeeded, phase], ['COMPLETED', false, undefined]);
            const ofStatus = JSON.parse(await text(`${path}/status`)) as Details;
            assert.deepEqual([ofStatus.status, ofStatus.succeeded], ['COMPLETED', false]);
            assert.ok(errors[0]?.message.includes(reason), errors[0]?.message);
            const log = await text(`${path}/logs`);
            assert.ok(log.includes(failureText(reason)), log);
            assert.doesNotMatch(reason, /\/tmp\/|\/var\/lib|buildkitd\.sock/);
            return reason;
          },
        };
      },
      [Symbol.asyncDispose]: () => whole.disposeAsync(),
    };
  };

  test('out of memory: the error says that the step was probably killed for it', async () => {
    await using world = await startWorld({ memoryBytes: 64 * mebibyte });
    const greedy = `FROM ${base}\nRUN echo before; dd if=/dev/zero of=/dev/null bs=256M count=1\n`;
    const failure = await (await world.begin(greedy)).failure();
    assert.match(
      failure,
      /'\[2\/2\] RUN .*' (was killed \(exit code 137\), most likely|ran) out of memory: use less memory, .*\(Dockerfile, line 2\)/,
    );
    assert.match(failure, /before/);
    // The builder works as before.
    const modest = await world.begin(`FROM ${base}\nRUN echo after > /after\n`);
    await eventually('it is built', async () => (await modest.details()).succeeded === true);
  });

  test('a full disk, found by a step or by the builder', async () => {
    await using world = await startWorld({ diskBytes: 16 * mebibyte });
    const step = await world.begin(`FROM ${base}\nRUN dd if=/dev/zero of=/big bs=1M count=64\n`);
    const ofStep = await step.failure();
    assert.match(
      ofStep,
      /exit code 1 \(Dockerfile, line 2\); most likely the builder's disk is full: make .* free disk space, and try again\. [\s\S]*No space left/,
    );
    // It fits, but its layer does not fit beside it.
    const whole = await world.begin(`FROM ${base}\nRUN dd if=/dev/urandom of=/big bs=1M count=8\n`);
    assert.match(
      await whole.failure(),
      /^the builder's disk is full: make .* free disk space, and try again$/,
    );
  });

  test('the time limit is reached', async () => {
    await using world = await startWorld({}, { timeLimit: '2s' });
    const endless = await world.begin(`FROM ${base}\nRUN sleep 600\n`);
    await eventually('it runs', async () => (await endless.details()).phase === 'running');
    assert.match(
      await endless.failure(),
      /longer than the 2 seconds allowed: .* builds\.timeLimit/,
    );
    await eventually('its processes have ended', async () => {
      return (await world.buildkitd.containerProcesses()).length === 0;
    });
  });

  test('cancelled while it runs, and while it waits', async () => {
    await using world = await startWorld({}, { concurrent: 1 });
    const endless = await world.begin(`FROM ${base}\nRUN sleep 601\n`);
    const queued = await world.begin(`FROM ${base}\nRUN sleep 602\n`);
    await eventually('a process runs', async () => {
      return (await world.buildkitd.containerProcesses()).length > 0;
    });
    for (const [{ id, details }, phase] of [
      [endless, 'running'] as const,
      [queued, 'queued'] as const,
    ]) {
      const status = await (await world.sluice.fetch(`/v1alpha1/builds/${id}/status`)).json();
      assert.equal((status as Details).phase, phase);
      assert.equal((await details()).phase, phase);
    }
    const headers = { authorization: `Basic ${Buffer.from('admin:secret').toString('base64')}` };
    assert.equal((await queued.details()).waitsFor, 'other builds, which go first');
    // A client that follows its log gets a response at once, although the log is empty.
    const followed = await world.sluice.fetch(`/v1alpha1/builds/${queued.id}/logs?follow=1`);
    assert.equal(followed.status, 200);
    for (const { id } of [queued, endless]) {
      await world.sluice.fetch(`/v1alpha1/builds/${id}`, { method: 'DELETE', headers });
    }
    for (const build of [queued, endless]) {
      assert.equal(await build.failure(), 'The build was cancelled');
    }
    assert.match(await followed.text(), /The build was cancelled/);
    await eventually('its processes have ended', async () => {
      return (await world.buildkitd.containerProcesses()).length === 0;
    });
  });

  test('a killed builder that does not return', async () => {
    await using world = await startWorld();
    const build = await world.begin(`FROM ${base}\nRUN sleep 603\n`);
    await eventually('a process runs', async () => {
      return (await world.buildkitd.containerProcesses()).length > 0;
    });
    world.buildkitd.signal('SIGKILL');
    assert.match(
      await build.failure(),
      /^No builder answers: .* the builder has ended \(tried 5 times\): try again later$/,
    );
  });
});
