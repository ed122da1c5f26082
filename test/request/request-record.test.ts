/** The record of a request is what was asked for, what it resolved to, and what was made. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { admin, administered } from '../hosted/push-client.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

interface RecordedResponse {
  readonly requestId: string;
  readonly targetImage: string;
  readonly buildId: string;
  readonly digest?: string;
}

suite('records of requests', { concurrency: 1 }, () => {
  let registry: Registry;
  let sluice: Sluice;
  let base: string;
  let baseDigest: string;

  before(async () => {
    registry = await startRegistry();
    const image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci');
    base = image?.reference ?? '';
    sluice = await startSluice({
      config: { ...administered, registries: { [registry.host]: { plainHttp: true } } },
    });
    baseDigest = String((await sluice.request({ containerImage: base })).digest);
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
  });

  const ask = async (body: object) => (await sluice.request(body)) as unknown as RecordedResponse;
  const json = async (path: string, headers: Record<string, string> = {}) =>
    (await (await sluice.fetch(path, { headers })).json()) as Record<string, unknown>;

  test('a frozen image: the image that was asked for, with its changes', async () => {
    const asked = {
      containerImage: base,
      containerConfig: { env: ['A=1'], cmd: ['sh'] },
      buildRepository: `${registry.host}/frozen/app`,
      nameStrategy: 'none',
      freeze: true,
      containerPlatform: 'linux/amd64',
    };
    const { requestId, targetImage, buildId } = await ask(asked);
    await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    for (const path of [`/v1alpha2/container/${requestId}`, `/container-token/${requestId}`]) {
      const { request, ...record } = await json(path);
      const { creationTime: _, ...found } = request as Record<string, unknown>;
      assert.deepEqual(found, { ...asked, platform: asked.containerPlatform });
      for (const [field, value] of Object.entries(asked)) {
        assert.deepEqual(record[field], value, field);
      }
      assert.deepEqual(record.source, { image: base, digest: baseDigest });
      assert.equal(record.sourceImage, base);
      assert.equal(record.sourceDigest, baseDigest);
      assert.equal(record.waveImage, targetImage);
      assert.match(String(record.waveDigest), /^sha256:/);
      assert.notEqual(record.waveDigest, baseDigest);
    }
    const page = await sluice.fetch(`/view/containers/${requestId}`, {
      headers: { accept: 'text/html' },
    });
    const text = await page.text();
    assert.match(text, /<dt>Base image<\/dt>/);
    assert.ok(text.includes(base));
    assert.match(text, /<dt>Added<\/dt><dd>1 variable, a command<\/dd>/);
    assert.match(text, new RegExp(`<dt>Repository</dt><dd><code><bdi>${asked.buildRepository}`));
  });

  test('a build has the fields and the id of the reference service', async () => {
    const { buildId } = await ask({
      containerImage: base,
      buildRepository: `${registry.host}/frozen/other`,
      freeze: true,
    });
    await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    const build = await json(`/v1alpha1/builds/bd-${buildId}`);
    assert.equal(build.buildId, buildId);
    assert.equal(build.exitStatus, 0);
    assert.equal((await json(`/v1alpha1/builds/bd-${buildId}/status`)).id, buildId);
  });

  test('who requested it is shown to that user and to administrators', async () => {
    const account = { name: 'admin', password: 'secret' };
    const token = await newAccessToken(sluice, account, 'ada@example.org');
    const ada = { authorization: `Bearer ${token}` };
    const buildRepository = `${registry.host}/frozen/ada`;
    const frozen = { containerImage: base, buildRepository, freeze: true };
    const { requestId, buildId } = await ask({ ...frozen, platformAccessToken: token });
    for (const path of [`/v1alpha2/container/${requestId}`, `/v1alpha1/builds/${buildId}`]) {
      assert.equal((await json(path)).user, undefined);
      for (const headers of [ada, admin]) {
        assert.match(String((await json(path, headers)).user), / 1$/, path);
      }
    }
    const strange = await ask({ containerImage: base });
    const path = `/v1alpha2/container/${strange.requestId}`;
    const found = [await json(path), await json(path, ada), await json(path, admin)];
    assert.deepEqual(
      found.map(({ user, requestIp }) => [user, requestIp]),
      [
        [undefined, undefined],
        [undefined, undefined],
        [undefined, '127.0.0.1'],
      ],
    );
    const [key = ''] = buildId.split('_');
    for (const [headers, isShown] of [
      [{}, false],
      [ada, true],
    ] as const) {
      const page = await sluice.fetch(`/view/builds/bd-${key}`, {
        headers: { accept: 'text/html', ...headers },
      });
      assert.equal((await page.text()).includes(`/view/builds/${buildId}`), isShown);
    }
  });

  test('the status of a request leads to the page of its build', async () => {
    const { requestId, buildId } = await ask({
      containerImage: base,
      buildRepository: `${registry.host}/frozen/other`,
      freeze: true,
    });
    if (buildId === undefined) return;
    const { detailsUri } = await json(`/v1alpha2/container/${requestId}/status`);
    assert.equal(detailsUri, `${sluice.url}/view/builds/${buildId}`);
  });
});
