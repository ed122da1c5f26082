/** A server with accounts serves its names to every client, with any stored login. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { basic } from '../hosted/push-client.ts';
import {
  clientsOf,
  forgetLogins,
  type Login,
  login,
  pull,
  runWithPodman,
  storeLogin,
} from '../world/clients.ts';
import { startContainerd } from '../world/containerd.ts';
import { startDocker } from '../world/docker.ts';
import type { Result } from '../world/program.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { labelOf, type Sluice, startSluice } from '../world/sluice.ts';
import { outerSuites } from '../world/tools.ts';
import { accounts, ci, stale } from './hosted.ts';
import { assertSuccess, plainRegistries } from './served.ts';

suite('served names beside accounts', { concurrency: 2 }, () => {
  let registry: Registry;
  let guarded: Sluice;
  let open: Sluice;
  let image: Pushed;

  before(async () => {
    registry = await startRegistry();
    const pushed = (await pushCorpus(registry, ['cfg:full'])).get('cfg:full');
    assert.ok(pushed);
    image = pushed;
    const config = { ...plainRegistries(registry.host), limits: { pulls: { anonymous: 'off' } } };
    guarded = await startSluice({ config: { ...config, accounts } });
    open = await startSluice({ config });
  });
  after(async () => {
    await open?.stop();
    await guarded?.stop();
    await registry?.stop();
  });

  let requests = 0;

  /** A new served name; its containers print the greeting. */
  const serve = async (sluice: Sluice) => {
    const greeting = `number ${++requests}`;
    const response = await sluice.request({
      containerImage: image.reference,
      containerConfig: { env: [`GREETING=${greeting}`] },
    });
    return { ...response, greeting };
  };

  /** Pulls a name of the server; all requests of the client must succeed. */
  const check = async (
    sluice: Sluice,
    what: string,
    pullName: (reference: string) => Promise<Result>,
  ): Promise<void> => {
    const response = await serve(sluice);
    assertSuccess(await pullName(response.targetImage), what);
    const own = (await sluice.requests()).filter(one => one.tokenLabel === labelOf(response));
    const refused = own.filter(one => one.status >= 400 && !isGuess(one.path));
    assert.deepEqual(refused, [], what);
    assert.ok(
      own.some(one => one.path.includes('/blobs/')),
      `${what}: no blob was fetched`,
    );
  };

  /** Every login that a client may have stored; ends with valid credentials of the first server. */
  const checkLogins = async (
    root: Root,
    pullName: (reference: string, account?: Login) => Promise<Result>,
    logIn: (host: string) => Promise<Result>,
  ): Promise<void> => {
    await check(guarded, 'without a login', name => pullName(name));
    await check(open, 'without a login or an account', name => pullName(name));
    await storeLogin(root, guarded.host, stale);
    await check(guarded, 'with an outdated login', name => pullName(name, stale));
    await storeLogin(root, guarded.host, { username: 'nobody', password: 'nothing' });
    await check(guarded, 'with a wrong login', name => pullName(name, stale));
    await storeLogin(root, open.host, stale);
    await check(open, 'with a login, on a server without accounts', name => pullName(name, stale));
    await forgetLogins(root);
    assertSuccess(await logIn(guarded.host));
    await check(guarded, 'with a good login', name => pullName(name, ci));
  };

  for (const name of outerSuites) {
    for (const store of ['overlay2', 'containerd'] as const) {
      // Docker 20.10 has only its own store.
      if (name === 'bookworm' && store === 'containerd') continue;
      test(`Docker of ${name} with ${store}`, async () => {
        await using docker = await startDocker({ suite: name, store });
        const pullName = (reference: string) => docker.pull(reference);
        await checkLogins(docker.root, pullName, host => docker.login(host, ci));
        const { targetImage, greeting } = await serve(guarded);
        const printed = assertSuccess(await docker.run(targetImage));
        assert.ok(printed.includes(`greeting: ${greeting}`), printed);
      });
    }

    test(`containerd of ${name}`, async () => {
      await using containerd = await startContainerd({ suite: name });
      const { root } = containerd;
      const pullName = (reference: string, account?: Login) =>
        containerd.pull(reference, account ? { account } : {});
      // This client stores no logins.
      await checkLogins(root, pullName, () => containerd.ctr(['version']));
    });

    for (const client of clientsOf(name)) {
      test(`${client} of ${name}`, async () => {
        await using root = await openRoot(name);
        const pullName = (reference: string) => pull(root, client, reference);
        await checkLogins(root, pullName, host => login(root, client, host, ci));
        if (client !== 'podman') return;
        const { targetImage, greeting } = await serve(guarded);
        const printed = assertSuccess(await runWithPodman(root, targetImage));
        assert.ok(printed.includes(`greeting: ${greeting}`), printed);
      });
    }
  }

  test('the challenge names the token service, which accepts any login for served names', async () => {
    const { targetImage } = await serve(guarded);
    const challenge = await guarded.fetch('/v2/');
    assert.equal(challenge.status, 401);
    const realm = `${guarded.url}/v2/token`;
    const expected = `Bearer realm="${realm}",service="${guarded.host}"`;
    assert.equal(challenge.headers.get('www-authenticate'), expected);
    assert.equal((await open.fetch('/v2/')).status, 200);

    const repository = targetImage.slice(guarded.host.length + 1, targetImage.lastIndexOf(':'));
    const ask = (scopes: readonly string[]) => {
      const query = new URLSearchParams();
      for (const scope of scopes) query.append('scope', `repository:${scope}`);
      return fetch(`${realm}?${query}`, { headers: basic(stale.username, stale.password) });
    };
    assert.equal((await ask([`${repository}:pull`])).status, 200);
    assert.equal((await ask(['team/app:pull'])).status, 401);
    assert.equal((await ask([`${repository}:pull`, 'team/app:pull'])).status, 401);
    assert.equal((await ask([])).status, 401);
  });

  test('a served name works with an invalid refresh token', async () => {
    const { targetImage } = await serve(guarded);
    const repository = targetImage.slice(guarded.host.length + 1, targetImage.lastIndexOf(':'));
    // Docker sends the token that another registry at this address once issued.
    const grant = { grant_type: 'refresh_token', refresh_token: 'outdated', client_id: 'docker' };
    const refresh = async (scope: string) => {
      const body = new URLSearchParams({ ...grant, scope });
      return (await guarded.fetch('/v2/token', { method: 'POST', body })).status;
    };
    assert.equal(await refresh(`repository:${repository}:pull`), 200);
    assert.notEqual(await refresh('repository:team/app:pull'), 200);
  });
});

/** cosign looks for signatures, which do not exist. */
function isGuess(path: string): boolean {
  return /\/(?:referrers\/|manifests\/sha256-)[^/]*$/.test(path);
}
