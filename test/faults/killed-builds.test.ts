/** Builds whose server is killed while they run. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';

type BuildResponse = ContainerResponse & { readonly buildId: string };

suite('builds of a killed server', { concurrency: 2 }, () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let base: string;
  before(async () => {
    registry = await startRegistry();
    const pushed = await pushCorpus(registry, ['busybox:oci']);
    base = pushed.get('busybox:oci')?.reference ?? '';
    buildkitd = await startBuildkitd();
  });
  after(async () => {
    await buildkitd?.stop();
    await registry?.stop();
  });

  const configuration = () => ({
    buildkit: [buildkitd.address],
    builds: { syntax: 'builder' },
    limits: { builds: { anonymous: 'off' } },
    registries: { [registry.host]: { plainHttp: true } },
  });

  test('after kill -9, the next server resumes a build', async () => {
    await using first = await startSluice({ config: configuration(), port: await freePort() });
    const body = {
      containerFile: Buffer.from(`FROM ${base}\nRUN sleep 2; echo survived\n`).toString('base64'),
    };
    const { targetImage, buildId } = (await first.request(body)) as BuildResponse;
    await sleep(500);
    await first.kill();
    await using second = await startSluice({
      config: configuration(),
      data: first.data,
      port: first.port,
    });
    const response = await fetch(
      second.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`),
    );
    assert.equal(response.status, 200);
    const status = await second.fetch(`/v1alpha1/builds/${buildId}/status`);
    assert.equal(((await status.json()) as { succeeded: boolean }).succeeded, true);
  });

  test('a build is not restarted after the server was killed three times during it', async () => {
    const config = configuration();
    const first = await startSluice({ config, port: await freePort() });
    await using _data = first;
    const containerFile = Buffer.from(`FROM ${base}\nRUN sleep 1000\n`).toString('base64');
    const { buildId, targetImage } = (await first.request({ containerFile })) as BuildResponse;
    const detailsAt = async (server: Sluice) =>
      (await (await server.fetch(`/v1alpha1/builds/${buildId}`)).json()) as {
        phase?: string;
        reason?: string;
      };
    const logAt = async (server: Sluice) =>
      (await server.fetch(`/v1alpha1/builds/${buildId}/logs`)).text();
    let last = first;
    for (let kills = 0; kills < 3; kills += 1) {
      await eventually('its step runs', async () => {
        const [, ...resumed] = (await logAt(last)).split('The build starts again');
        const own = kills === 0 ? await logAt(last) : resumed[kills - 1];
        return own?.includes('RUN sleep 1000') === true;
      });
      await last.kill();
      last = await startSluice({ config, data: first.data, port: first.port });
    }
    await using fourth = last;
    const failure = /^The server ended unexpectedly 3 times while this build ran/;
    await eventually('it has ended', async () => (await detailsAt(fourth)).phase === undefined);
    assert.match((await detailsAt(fourth)).reason ?? '', failure);
    assert.match(await logAt(fourth), /The build failed: The server ended unexpectedly 3 times/);
    const pull = await fetch(fourth.at(targetImage, 'manifests/latest'));
    assert.equal(pull.status, 400);
    assert.match(await pull.text(), /ended unexpectedly 3 times/);
  });
});
