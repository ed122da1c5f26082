/** Nobody else can use the server's own right to its repositories. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';

const administrator = { name: 'admin', password: 'secret' };

test("the server's own credentials do not push to repositories in requests", async () => {
  await using open = await startRegistry();
  await using closed = await startRegistry({ auth: 'basic' });
  const images = await pushCorpus(open, ['busybox:oci']);
  await using sluice = await startSluice({
    config: {
      accounts: { admin: 'secret' },
      buildRepository: `${closed.host}/service/builds`,
      cacheRepository: `${closed.host}/service/cache`,
      registries: {
        [open.host]: { plainHttp: true },
        [closed.host]: { plainHttp: true, username: closed.username, password: closed.password },
      },
    },
  });
  const post = (path: string, body: object, headers = {}) =>
    sluice.fetch(path, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const freeze = (buildRepository: string, more: object) =>
    post('/v1alpha2/container', {
      containerImage: images.get('busybox:oci')?.reference,
      freeze: true,
      buildRepository,
      ...more,
    });
  const platformAccessToken = await newAccessToken(sluice, administrator, 'ada@example.org');
  for (const caller of [{}, { platformAccessToken }]) {
    for (const repository of ['service/builds', 'service/builds/mine', 'service/cache/mine']) {
      const response = await freeze(`${closed.host}/${repository}`, caller);
      assert.equal(response.status, 403, await response.clone().text());
      assert.match(await response.text(), /'buildRepository': .*(?:refused|credentials)/);
    }
  }
  const build = await post('/v1alpha2/container', {
    containerFile: Buffer.from('FROM scratch\nCOPY a /a\n').toString('base64'),
    cacheRepository: `${closed.host}/service/cache/mine`,
  });
  assert.equal(build.status, 403, await build.text());

  // A caller with a separate right may use it.
  const keys = {
    registry: `${closed.host}/service/builds`,
    userName: closed.username,
    password: closed.password,
  };
  const authorization = `Bearer ${platformAccessToken}`;
  const added = await post('/platform/credentials', { credentials: { keys } }, { authorization });
  assert.equal(added.status, 200, await added.text());
  const theirs = await freeze(`${closed.host}/service/builds/mine`, { platformAccessToken });
  assert.equal(theirs.status, 200, await theirs.text());
});
