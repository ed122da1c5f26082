/** Container requests for hosted images: the server is its own registry, without requests to itself. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { copy, type Login, runWithPodman, storeLogin } from '../world/clients.ts';
import { startDocker } from '../world/docker.ts';
import { freePort } from '../world/free-port.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type ContainerResponse, labelOf, type Sluice, startSluice } from '../world/sluice.ts';
import { outerSuites } from '../world/tools.ts';
import { accounts, admin, reader } from './hosted.ts';
import { assertSuccess, byDigest, fetchJson, plainRegistries } from './served.ts';

const images = ['cfg:full', 'cfg:full-docker', 'multi:index'];

suite('container requests for hosted images', () => {
  let registry: Registry;
  let sluice: Sluice;
  let root: Root;
  let pushed: Map<string, Pushed>;

  before(async () => {
    registry = await startRegistry();
    pushed = await pushCorpus(registry, images);
    sluice = await startSluice({ config: { accounts } });
    root = await openRoot('forky');
    await pushTo(sluice);
  });
  after(async () => {
    await root?.close();
    await sluice?.stop();
    await registry?.stop();
  });

  const push = async (server: Sluice, name: string, to: string) => {
    await storeLogin(root, server.host, admin);
    assertSuccess(await copy(root, 'crane', sourceOf(name).reference, `${server.host}/${to}`));
  };
  /** Puts the images into `public/cfg`, `team/cfg` and so on. */
  const pushTo = async (server: Sluice) => {
    for (const name of images) {
      for (const group of ['public', 'team']) await push(server, name, `${group}/${name}`);
    }
  };
  const sourceOf = (name: string): Pushed => {
    const image = pushed.get(name);
    assert.ok(image, name);
    return image;
  };

  const greet = (
    server: Sluice,
    image: string,
    greeting = 'injected',
  ): Promise<ContainerResponse> =>
    server.request({
      containerImage: `${server.host}/${image}`,
      containerConfig: { env: [`GREETING=${greeting}`] },
    });

  const manifestOf = async (server: Sluice, { targetImage, digest }: ContainerResponse) =>
    (await fetch(server.at(targetImage, `manifests/${digest}`))).text();

  test('the served image equals that of another registry, but for the name of its base', async () => {
    await using other = await startSluice({ config: plainRegistries(registry.host) });
    for (const name of images) {
      const source = sourceOf(name);
      const repository = source.repository.replace('corpus', 'public');
      for (const [theirs, own] of [
        [source.reference, `${sluice.host}/${repository}:${source.tag}`],
        [byDigest(source), `${sluice.host}/${repository}@${source.digest}`],
      ] as const) {
        const containerConfig = { env: ['GREETING=injected'] };
        const body = { containerConfig, containerPlatform: 'linux/amd64' };
        const expected = await other.request({ ...body, containerImage: theirs });
        const response = await sluice.request({ ...body, containerImage: own });
        assert.equal(response.sourceDigest, expected.sourceDigest, own);
        const [mine = '', equal = ''] = await Promise.all([
          manifestOf(sluice, response),
          manifestOf(other, expected),
        ]);
        assert.equal(mine.replace(`"${own}"`, `"${theirs}"`), equal, own);
      }
    }
  });

  for (const name of outerSuites) {
    test(`podman and Docker of ${name} run the image, and the server sends no requests to itself`, async () => {
      await using podman = await openRoot(name);
      await using docker = await startDocker({ suite: name });
      const known = (await sluice.requests()).length;
      for (const [image, greeting] of [
        ['public/cfg:full', `oci in ${name}`],
        ['public/cfg:full-docker', `docker in ${name}`],
      ] as const) {
        const { targetImage } = await greet(sluice, image, greeting);
        const printed = assertSuccess(await runWithPodman(podman, targetImage));
        assert.ok(printed.includes(`greeting: ${greeting}`), printed);
        assert.equal(assertSuccess(await docker.run(targetImage)), printed);
      }
      const asked = (await sluice.requests()).slice(known);
      assert.ok(asked.some(({ path }) => path.includes('/blobs/')));
      // Requests of clients are below /v2/ct/.
      const own = asked.filter(({ path }) => /^\/v2\/(?:public|team)\//.test(path));
      assert.deepEqual(own, []);
    });
  }

  test('the served image stays the same when its tag is pushed again', async () => {
    await push(sluice, 'cfg:full', 'public/moving:1');
    const response = await greet(sluice, 'public/moving:1');
    await push(sluice, 'multi:index', 'public/moving:1');
    const printed = assertSuccess(await runWithPodman(root, response.targetImage));
    assert.match(printed, /greeting: injected/);
    assert.notEqual((await greet(sluice, 'public/moving:1')).digest, response.digest);
    const served = (await sluice.requests()).filter(one => one.tokenLabel === labelOf(response));
    assert.ok(served.every(({ status }) => status === 200));
  });

  test('a private image is refused, whether it exists or not', async () => {
    const refuse = async (image: string) => {
      const error: unknown = await greet(sluice, image).then(
        () => assert.fail(`${image} was served`),
        (reason: unknown) => reason,
      );
      const { message } = error as Error;
      assert.match(message, /^40[0134]: /);
      return message.replaceAll(image.split(':')[0] ?? '', 'x').replace(/[0-9a-f]{12}/g, '');
    };
    assert.equal(await refuse('team/cfg:full'), await refuse('team/none:full'));
  });

  const startWithCredentials = async (account: Login) => {
    // The host is a part of its own configuration.
    const port = await freePort();
    const registries = { [`127.0.0.1:${port}`]: { ...account, anonymous: true } };
    return startSluice({ port, config: { accounts, registries } });
  };

  test('with credentials for its own host, the server serves the images that they may pull', async () => {
    await using server = await startWithCredentials(reader);
    await pushTo(server);
    const { targetImage } = await greet(server, 'team/cfg:full');
    const printed = assertSuccess(await runWithPodman(root, targetImage));
    assert.match(printed, /greeting: injected/);
    const index = await greet(server, 'team/multi:index');
    const manifest = await fetchJson<{ manifests: object[] }>(
      server,
      index.targetImage,
      `manifests/${index.digest}`,
    );
    assert.equal(manifest.manifests.length, 2);
    await assert.rejects(greet(server, 'secret/app:1'), /^Error: 40[0134]: /);
  });

  test('wrong credentials for its own host give the rights of no credentials', async () => {
    await using server = await startWithCredentials({ ...reader, password: 'wrong' });
    await pushTo(server);
    await assert.rejects(greet(server, 'team/cfg:full'), /^Error: 40[0134]: /);
  });
});
