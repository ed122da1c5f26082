/** Deleting a hosted image ends the names that serve it. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { assertRegistryFault, call } from '../faults/http-client.ts';
import { administered, Repository } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

const change = { env: ['LEAKED=no'] };

suite('a deleted hosted image', () => {
  let sluice: Sluice;
  let images: Map<string, Pushed>;
  let repository: (name: string) => Repository;

  before(async () => {
    const hosted = { anonymous: ['corpus/*'] };
    sluice = await startSluice({ config: { ...administered, rightLife: '300ms', hosted } });
    const target = { url: sluice.url, host: sluice.host, username: 'admin', password: 'secret' };
    images = await pushCorpus(target, ['cfg:full', 'multi:index', 'busybox']);
    repository = name => new Repository(sluice, `corpus/${name.split(':')[0]}`);
  });
  after(() => sluice?.stop());

  const imageOf = (name: string): Pushed => {
    const image = images.get(name);
    assert.ok(image);
    return image;
  };
  const routesOf = async (targetImage: string, digest: string) => {
    const manifest = JSON.parse((await pull(targetImage, `manifests/${digest}`)).body.toString());
    const blobs = [manifest.config, ...(manifest.layers ?? [])].filter(Boolean);
    return [`manifests/${digest}`, ...blobs.map((blob: Pushed) => `blobs/${blob.digest}`)];
  };
  const pull = (targetImage: string, route: string) => call(sluice.at(targetImage, route));
  const assertServed = async (targetImage: string, routes: readonly string[]) => {
    for (const route of routes) assert.equal((await pull(targetImage, route)).status, 200, route);
  };
  const assertEnded = async (targetImage: string, routes: readonly string[]) => {
    await eventually('the name ends', async () => {
      const { status } = await pull(targetImage, routes[0] ?? '');
      return status === 403;
    });
    for (const route of routes) {
      assertRegistryFault(await pull(targetImage, route), {
        status: 403,
        code: 'DENIED',
        message: /no longer shows .*the image was removed/,
      });
    }
  };

  for (const containerConfig of [undefined, change]) {
    const what = containerConfig ? 'changed' : 'unchanged';
    const name = containerConfig ? 'cfg:full' : 'busybox:oci';

    test(`is no longer served under its ${what} name, and is again after another push`, async () => {
      const { reference, digest } = imageOf(name);
      const response = await sluice.request({ containerImage: reference, containerConfig });
      const { targetImage } = response;
      const routes = await routesOf(targetImage, response.digest);
      // The tag is not what is served.
      const tag = reference.split(':').at(-1);
      assert.equal((await repository(name).send('DELETE', `manifests/${tag}`)).status, 202);
      await assertServed(targetImage, routes);
      assert.equal((await repository(name).send('DELETE', `manifests/${digest}`)).status, 202);
      await assertEnded(targetImage, routes);
      const target = { url: sluice.url, host: sluice.host, username: 'admin', password: 'secret' };
      await pushCorpus(target, [name]);
      await assertServed(targetImage, routes);
    });
  }

  test('of an index ends the names of the index, and those of its platforms', async () => {
    const { reference, image } = imageOf('multi:index');
    const [child] = image.children;
    assert.ok(child);
    const whole = await sluice.request({ containerImage: reference, containerConfig: change });
    const single = { containerImage: reference, containerPlatform: 'linux/arm64' };
    const platform = await sluice.request(single);
    const names = [whole, platform].map(({ targetImage, digest }) => ({ targetImage, digest }));
    await assertServed(platform.targetImage, [`manifests/${platform.digest}`]);
    assert.equal(
      (await repository('multi:index').send('DELETE', `manifests/${child.digest}`)).status,
      202,
    );
    await assertEnded(whole.targetImage, [`manifests/${whole.digest}`]);
    await repository('multi:index').send('DELETE', `manifests/${image.root.digest}`);
    for (const { targetImage, digest } of names) {
      await assertEnded(targetImage, [`manifests/${digest}`]);
    }
  });
});
