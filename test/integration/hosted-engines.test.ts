/** Docker and containerd of every suite push to hosted repositories and pull back the same images. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { fullLines } from '../corpus/cfg.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { startContainerd } from '../world/containerd.ts';
import { type Docker, startDocker } from '../world/docker.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { suites } from '../world/tools.ts';
import { accounts, ci, inspectHosted, mountsInto } from './hosted.ts';
import { assertSuccess, plainRegistries } from './served.ts';

suite('engines and hosted repositories', { concurrency: 2 }, () => {
  let registry: Registry;
  let sluice: Sluice;
  let pushed: Map<string, Pushed>;

  before(async () => {
    registry = await startRegistry();
    pushed = await pushCorpus(registry, ['cfg:full', 'cfg:full-docker', 'multi:index']);
    sluice = await startSluice({ config: { ...plainRegistries(registry.host), accounts } });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
  });

  /** Makes an engine pull an image of the corpus. Returns its name in the engine. */
  const fetchImage = async (docker: Docker, name: string): Promise<Pushed> => {
    const image = pushed.get(name);
    assert.ok(image, name);
    assertSuccess(await docker.pull(image.reference), name);
    return image;
  };

  for (const name of suites) {
    for (const store of ['overlay2', 'containerd'] as const) {
      // Docker 20.10 has only its own store.
      if (name === 'bookworm' && store === 'containerd') continue;

      // One engine for all of it: starting one costs as much as a pull.
      suite(`Docker of ${name} with ${store}`, { concurrency: 1 }, () => {
        let docker: Docker;
        const kinds = ['full', 'full-docker'] as const;
        const repositoryOf = (kind: string) => `team/${name}-${store}-${kind}`;

        before(async () => {
          docker = await startDocker({ suite: name, store });
          assertSuccess(await docker.login(sluice.host, ci));
        });
        after(() => docker?.stop());

        for (const kind of kinds) {
          test(`pushes ${kind}, pulls it back and runs it`, async () => {
            const image = await fetchImage(docker, `cfg:${kind}`);
            const repository = repositoryOf(kind);
            const reference = `${sluice.host}/${repository}:1`;
            const printed = assertSuccess(await docker.push(image.reference, reference));
            const digest = /digest: (\S+) size/.exec(printed)?.[1];
            const hosted = await inspectHosted(sluice, repository, '1');
            assert.equal(hosted.digest, digest, printed);
            // The classic store writes its own manifest.
            if (store === 'containerd') assert.equal(hosted.digest, image.digest);

            assertSuccess(await docker.docker(['image', 'rm', '-f', image.reference, reference]));
            assertSuccess(await docker.pull(reference));
            const format = '{{.Id}} {{json .RepoDigests}}';
            const found = await docker.docker(['image', 'inspect', '-f', format, reference]);
            const [id, digests = ''] = assertSuccess(found).split(' ');
            assert.equal(id, store === 'containerd' ? hosted.digest : hosted.config);
            assert.ok(digests.includes(`${sluice.host}/${repository}@${hosted.digest}`), digests);
            assert.equal(assertSuccess(await docker.run(reference)), `${fullLines.join('\n')}\n`);
          });
        }

        test('mounts layers, and pushes served images', async () => {
          const [one] = kinds.map(kind => `${sluice.host}/${repositoryOf(kind)}:1`);
          const two = `team/${name}-${store}-two`;
          assertSuccess(await docker.push(one ?? '', `${sluice.host}/${two}:1`));
          const { layers } = await inspectHosted(sluice, two, '1');
          assert.ok((await mountsInto(sluice, two)).length >= layers.length, 'layers mounted');

          const response = await sluice.request({
            containerImage: pushed.get('cfg:full')?.reference,
            containerConfig: { env: ['GREETING=served'] },
          });
          assertSuccess(await docker.pull(response.targetImage));
          const kept = `${sluice.host}/team/${name}-${store}-served:1`;
          assertSuccess(await docker.push(response.targetImage, kept));
          assertSuccess(await docker.docker(['image', 'rm', '-f', response.targetImage, kept]));
          assertSuccess(await docker.pull(kept));
          assert.match(assertSuccess(await docker.run(kept)), /greeting: served/);
          // It is in the names that the engine wants to mount from, and in the scopes of its tokens.
          assert.ok(!sluice.output().includes(response.containerToken), 'the token is in the log');
        });
      });
    }

    test(`containerd of ${name} pushes an index and pulls it back`, async () => {
      await using containerd = await startContainerd({ suite: name });
      const image = pushed.get('multi:index');
      assert.ok(image);
      const { ctr } = containerd;
      const pullAll = ['images', 'pull', '--plain-http', '--all-platforms'];
      assertSuccess(await ctr([...pullAll, image.reference]));
      const repository = `team/containerd-${name}`;
      const reference = `${sluice.host}/${repository}:1`;
      const user = ['--user', `${ci.username}:${ci.password}`];
      const push = ['images', 'push', '--plain-http', ...user, reference, image.reference];
      assertSuccess(await ctr(push));
      const hosted = await inspectHosted(sluice, repository, '1');
      assert.equal(hosted.digest, image.digest);
      assert.equal(hosted.mediaType, image.mediaType);

      // An engine without any of the layers.
      await using other = await startContainerd({ suite: name });
      assertSuccess(await other.pull(reference, { account: ci }));
      const listed = assertSuccess(await other.ctr(['images', 'ls', `name==${reference}`]));
      assert.ok(listed.includes(image.digest), listed);
      assertSuccess(await other.run(reference, ['/bin/true']));
    });
  }
});
