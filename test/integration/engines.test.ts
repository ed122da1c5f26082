/** Docker and containerd of every suite pull and run served images. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { startContainerd } from '../world/containerd.ts';
import { startDocker } from '../world/docker.ts';
import type { Result } from '../world/program.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, labelOf, type Sluice, startSluice } from '../world/sluice.ts';
import { suites } from '../world/tools.ts';
import {
  assertSuccess,
  type Case,
  caseImages,
  cases,
  nameOfCase,
  outputOf,
  plainRegistries,
  requestCase,
} from './served.ts';

interface Engine {
  pull(reference: string): Promise<Result>;
  run(reference: string): Promise<Result>;
  /** Whether the engine knows the name by this digest. */
  knows(reference: string, digest: string): Promise<boolean>;
}

suite('engines', { concurrency: 2 }, () => {
  let registry: Registry;
  let sluice: Sluice;
  let pushed: Map<string, Pushed>;

  before(async () => {
    registry = await startRegistry();
    pushed = await pushCorpus(registry, [...caseImages, 'attest:latest']);
    sluice = await startSluice({ config: plainRegistries(registry.host) });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
  });

  const requestsOf = async (response: ContainerResponse, kind: string) => {
    const requests = await sluice.requests();
    return requests.filter(
      ({ method, path, tokenLabel }) =>
        tokenLabel === labelOf(response) && method === 'GET' && path.includes(`/${kind}/`),
    );
  };

  const check = async (engine: Engine, one: Case): Promise<void> => {
    const what = nameOfCase(one);
    const response = await requestCase(sluice, pushed, one);
    const { targetImage, digest } = response;
    assertSuccess(await engine.pull(targetImage), what);
    assert.ok(await engine.knows(targetImage, digest), `${what}: ${digest}`);
    const blobs = (await requestsOf(response, 'blobs')).length;
    // Later cases share their blobs with the first.
    if (one === cases[0]) assert.ok(blobs > 0, `${what}: no blobs`);
    assertSuccess(await engine.pull(targetImage), what);
    const again = (await requestsOf(response, 'blobs')).length;
    assert.equal(again, blobs, `${what}: the second pull finds nothing new`);
    assert.equal(assertSuccess(await engine.run(targetImage), what), outputOf(one), what);
  };

  for (const name of suites) {
    for (const store of ['overlay2', 'containerd'] as const) {
      // Docker 20.10 has only its own store.
      if (name === 'bookworm' && store === 'containerd') continue;
      test(`Docker of ${name} with ${store}`, async () => {
        await using docker = await startDocker({ suite: name, store });
        const engine: Engine = {
          ...docker,
          async knows(reference, digest) {
            const format = '{{join .RepoDigests "\\n"}}';
            const names = await docker.docker(['image', 'inspect', '-f', format, reference]);
            const repository = reference.replace(/(?:@[^/]*|:[^/]*)$/, '');
            return assertSuccess(names).split('\n').includes(`${repository}@${digest}`);
          },
        };
        for (const one of cases) await check(engine, one);
      });
    }

    test(`containerd of ${name}`, async () => {
      await using containerd = await startContainerd({ suite: name });
      const engine: Engine = {
        ...containerd,
        async knows(reference, digest) {
          const images = await containerd.ctr(['images', 'ls', `name==${reference}`]);
          return assertSuccess(images).includes(digest);
        },
      };
      for (const one of cases) await check(engine, one);
    });
  }

  test('containerd 2.1 fetches every platform and attestation of an index', async () => {
    await using containerd = await startContainerd({ suite: 'forky' });
    const response = await sluice.request({
      containerImage: pushed.get('attest:latest')?.reference,
      containerConfig: { env: ['A=1'] },
    });
    assertSuccess(await containerd.pull(response.targetImage));
    const fetched = (await requestsOf(response, 'manifests')).filter(({ path }) =>
      path.includes('/sha256:'),
    );
    // The index, its two images and their two attestations.
    assert.equal(new Set(fetched.map(({ path }) => path)).size, 5);
    assert.deepEqual(
      fetched.filter(({ status }) => status !== 200),
      [],
    );
  });
});
