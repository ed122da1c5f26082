/** Real clients pull a name whose image is still being built. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { clientsOf, pull } from '../world/clients.ts';
import { startContainerd } from '../world/containerd.ts';
import { startDocker } from '../world/docker.ts';
import type { Result } from '../world/program.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { labelOf, type Sluice, startSluice } from '../world/sluice.ts';
import { suites } from '../world/tools.ts';
import { assertSuccess } from './served.ts';

suite('pulls of builds in progress', { concurrency: 6 }, () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let base: string;

  before(async () => {
    registry = await startRegistry();
    const pushed = await pushCorpus(registry, ['busybox:v2s2']);
    base = pushed.get('busybox:v2s2')?.reference ?? '';
    buildkitd = await startBuildkitd();
    sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        // A second in place of 25: a build of 4 s is to a client what one of 100 s is.
        builds: { pullWait: '1s', concurrent: 12 },
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await buildkitd?.stop();
    await registry?.stop();
  });

  /** Asks for a new build that takes so long. */
  const build = (seconds: number) =>
    sluice.request({
      containerFile: Buffer.from(
        `FROM ${base}\nRUN sleep ${seconds}; echo ${randomUUID()} > /made\n`,
      ).toString('base64'),
    });

  const check = async (pullName: (reference: string) => Promise<Result>): Promise<void> => {
    const answer = await build(4);
    assertSuccess(await pullName(answer.targetImage));
    const own = (await sluice.requests()).filter(one => one.tokenLabel === labelOf(answer));
    assert.ok(own.filter(({ status }) => status === 307).length >= 2, 'it was sent around');
    // cosign also looks for signatures, under tags that nobody has made.
    const refused = own.filter(({ status, path }) => status >= 400 && !path.includes('/sha256-'));
    assert.deepEqual(refused, []);
  };

  for (const name of suites) {
    for (const store of ['overlay2', 'containerd'] as const) {
      if (name === 'bookworm' && store === 'containerd') continue;
      test(`Docker of ${name} with ${store}`, async () => {
        await using docker = await startDocker({ suite: name, store });
        await check(reference => docker.pull(reference));
      });
    }
    test(`containerd of ${name}`, async () => {
      await using containerd = await startContainerd({ suite: name });
      await check(reference => containerd.pull(reference));
    });
    for (const client of clientsOf(name)) {
      test(`${client} of ${name}`, async () => {
        await using root = await openRoot(name);
        await check(reference => pull(root, client, reference));
      });
    }
  }

  test('who is sent around nine times is told how it stands', async () => {
    const { targetImage } = await build(30);
    const answer = await fetch(
      sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`),
    );
    assert.equal(answer.status, 503);
    assert.equal(answer.headers.get('retry-after'), '5');
    assert.match(
      await answer.text(),
      /image is running: pull it again in a while \(log: http:\/\/.*\/v1alpha1\/builds\//,
    );
  });
});
