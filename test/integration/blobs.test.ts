/** The three ways of serving a blob, with a registry that redirects to its own store. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { pull } from '../world/clients.ts';
import { type Docker, startDocker } from '../world/docker.ts';
import { freePort } from '../world/free-port.ts';
import { type Nginx, type NginxSite, relaySite, startNginx } from '../world/nginx.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { labelOf, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess, change, injected, outputOf } from './served.ts';

const full = 'cfg:full';
const big = 'big:64m';

interface StoreRequest {
  readonly method: string;
  readonly digest: string;
  readonly authorization: string;
  readonly agent: string;
}

suite('blobs', () => {
  let registry: Registry;
  let store: Nginx;
  let front: Nginx;
  let docker: Docker;
  let root: Root;
  let pushed: Map<string, Pushed>;

  before(async () => {
    registry = await startRegistry({ auth: 'basic' });
    pushed = await pushCorpus(registry, [full, big]);
    store = await startNginx(directory => storeSite(registry, directory));
    front = await startNginx(() => frontSite(registry, store));
    docker = await startDocker({ suite: 'bookworm' });
    root = await openRoot('forky');
  });
  after(async () => {
    await docker?.stop();
    await root?.close();
    await front?.stop();
    await store?.stop();
    await registry?.stop();
  });

  const config = (blobs: string) => {
    const { username, password } = registry;
    return {
      registries: {
        [front.host]: { plainHttp: true, anonymous: true, username, password, blobs },
        // The store is at a loopback address too.
        [store.host]: { plainHttp: true },
      },
    };
  };

  const request = (sluice: Sluice, name: string) => {
    const { repository, tag } = pushed.get(name) ?? assert.fail(name);
    return sluice.request({
      containerImage: `${front.host}/${repository}:${tag}`,
      containerConfig: change,
    });
  };

  /** Returns the requests that reached the store during the work. */
  const during = async (work: () => Promise<void>): Promise<StoreRequest[]> => {
    const before = (await storeRequests(store)).length;
    await work();
    return (await storeRequests(store)).slice(before);
  };

  const blobResponses = async (sluice: Sluice, response: Parameters<typeof labelOf>[0]) => {
    const requests = await sluice.requests();
    return requests.filter(
      ({ method, path, tokenLabel }) =>
        tokenLabel === labelOf(response) && method === 'GET' && path.includes('/blobs/'),
    );
  };

  const layersOf = (name: string) =>
    (pushed.get(name)?.image.blobs.slice(1) ?? []).map(({ digest }) => digest).sort();

  /** Pulls with all clients, each without stored content. */
  const pullWithAll = async (names: readonly string[]) => {
    for (const name of names) {
      assertSuccess(await docker.pull(name));
      assertSuccess(await docker.docker(['image', 'rm', name]));
      for (const client of ['skopeo', 'podman'] as const) {
        assertSuccess(await pull(root, client, name), client);
      }
      assertSuccess(await root.exec(['podman', 'image', 'rm', '--all', '--force']));
    }
  };

  test('redirect: clients download from the store themselves', async () => {
    await using sluice = await startSluice({ config: config('redirect') });
    for (const name of [full, big]) {
      const response = await request(sluice, name);
      const seen = await during(() => pullWithAll([response.targetImage]));
      for (const agent of [/^docker\//, /^skopeo\//, /podman|containers\/|libpod/]) {
        const digests = seen.filter(one => agent.test(one.agent)).map(({ digest }) => digest);
        assert.deepEqual([...new Set(digests)].sort(), layersOf(name), `${agent}`);
      }
      assert.deepEqual(
        seen.filter(({ authorization }) => authorization !== '-'),
        [],
        'nobody sends credentials to the store',
      );
      for (const { path, status } of await blobResponses(sluice, response)) {
        const isBase = layersOf(name).some(digest => path.endsWith(digest));
        assert.equal(status, isBase ? 307 : 200, path);
      }
    }
    const { targetImage } = await request(sluice, full);
    assert.equal(
      assertSuccess(await docker.run(targetImage)),
      outputOf({ image: 'cfg:full', by: 'tag' }),
    );
  });

  test('relay: clients contact Sluice only, and the store gets no credentials', async () => {
    await using sluice = await startSluice({ config: config('relay') });
    const response = await request(sluice, big);
    const seen = await during(() => pullWithAll([response.targetImage]));
    assert.deepEqual(
      seen.map(({ agent, authorization }) => [agent, authorization]),
      [1, 2, 3].map(() => ['sluice', '-']),
    );
    const responses = await blobResponses(sluice, response);
    assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
    assert.ok(responses.some(({ path }) => path.endsWith(injected.gzipDigest)));
  });

  test('cache: the store is asked once for all simultaneous clients, and never again', async () => {
    await using data = await makeTempDir('cache');
    const options = {
      config: config('cache'),
      data: data.join('state'),
      port: await freePort(),
    };
    let sluice = await startSluice(options);
    try {
      const { targetImage } = await request(sluice, big);
      const first = await during(async () => {
        const results = await Promise.all([
          docker.pull(targetImage),
          pull(root, 'skopeo', targetImage),
          pull(root, 'podman', targetImage),
        ]);
        for (const result of results) assertSuccess(result);
      });
      assert.deepEqual(
        first.map(({ agent, digest }) => [agent, digest]),
        layersOf(big).map(digest => ['sluice', digest]),
      );
      assertSuccess(await docker.docker(['image', 'rm', targetImage]));
      assertSuccess(await root.exec(['podman', 'image', 'rm', '--all', '--force']));
      assert.deepEqual(await during(() => pullWithAll([targetImage])), []);
      await sluice.stop();
      sluice = await startSluice(options);
      assert.deepEqual(await during(() => pullWithAll([targetImage])), []);
    } finally {
      await sluice.stop();
    }
  });
});

/** Serves the blobs of the registry without a login, and records the clients. */
function storeSite({ host, username, password }: Registry, directory: string): NginxSite {
  const basic = Buffer.from(`${username}:${password}`).toString('base64');
  const { http = '', server } = relaySite({ host });
  const format = '$request_method $uri "$http_authorization" $http_user_agent';
  return {
    http: `${http}\n  log_format visitors '${format}';`,
    server: `
      access_log ${directory}/visitors.log visitors;
      ${server.replace('proxy_pass', `proxy_set_header Authorization "Basic ${basic}";\n        proxy_pass`)}`,
  };
}

/** The registry, with its blobs in another place. */
function frontSite(registry: Registry, store: Nginx): NginxSite {
  const { http = '', server } = relaySite(registry);
  const redirect = `location ~ /blobs/ { return 307 ${store.url}$request_uri; }`;
  return { http, server: `${redirect}\n${server}` };
}

async function storeRequests({ directory }: Nginx): Promise<StoreRequest[]> {
  const log = await readFile(join(directory, 'visitors.log'), 'utf8');
  return log
    .trim()
    .split('\n')
    .filter(Boolean)
    .map(line => {
      const [, method = '', path = '', authorization = '', agent = ''] =
        /^(\S+) (\S+) "([^"]*)" (.*)$/.exec(line) ?? [];
      return { method, digest: path.slice(path.lastIndexOf('/') + 1), authorization, agent };
    })
    .filter(({ method }) => method === 'GET');
}
