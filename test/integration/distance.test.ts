/** How often a server waits for PostgreSQL and for the object store: the table of docs/replicas.md is measured here. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { baseLayer } from '../corpus/base.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { imageOf } from '../corpus/image.ts';
import { Pusher } from '../corpus/push.ts';
import { basic, expect, Repository } from '../hosted/push-client.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { type DistantProxy, inSeries, startDistantProxy } from '../world/distant-proxy.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { admin } from './hosted.ts';

const distanceMs = 5;
const restMs = 300;
const fewest = 2;
// On a busy machine, calls that run at the same time often look as if they waited for each other.
const most = 40;
const known = '/corpus/cfg:full';

/** Round trips of an action, and its time. `series` are those that wait for each other. */
interface Cost {
  readonly postgres: number;
  readonly store: number;
  readonly series: number;
  readonly ms: number;
}

const table = new Map(
  [
    ...readFileSync('docs/replicas.md', 'utf8').matchAll(
      /^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) ms \|$/gm,
    ),
  ].map(([, row = '', postgres, store, series, ms]) => [
    row,
    {
      ...{ postgres: Number(postgres), store: Number(store) },
      ...{ series: Number(series), ms: Number(ms) },
    } satisfies Cost,
  ]),
);

suite('cost of distance', () => {
  let postgres: Postgres;
  let store: ObjectStore;
  let bucketName: string;
  let proxies: readonly [rows: DistantProxy, objects: DistantProxy];
  let registry: Registry;
  let buildkitd: Buildkitd;
  let directory: TempDir;
  let sluice: Sluice;
  let repository: Repository;
  const headers = { ...basic(admin.username, admin.password), accept: '*/*' };
  const measured = new Map<string, Cost>();

  const start = async () => {
    const [rows, objects] = proxies;
    sluice = await startSluice({
      data: directory.join('data'),
      config: {
        accounts: { [admin.username]: admin.password },
        buildkit: [buildkitd.address],
        builds: { syntax: 'builder' },
        limits: { builds: { anonymous: 'off' }, pulls: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
        scrub: { bytesPerSecond: 'off' },
      },
      env: {
        ...store.env,
        SLUICE_DATABASE: rows.url,
        SLUICE_CONTENT: `s3://${bucketName}/site`,
        SLUICE_S3_ENDPOINT: objects.url,
        SLUICE_S3_REGION: 'us-east-1',
        SLUICE_S3_PATH_STYLE: 'true',
      },
    });
    repository = new Repository(sluice, 'team/app', headers);
  };
  /** Stops the server, and removes its copies of content. */
  const stop = async () => {
    await sluice.stop();
    await rm(directory.join('data/bucket'), { recursive: true });
  };
  const restart = async () => {
    await stop();
    await start();
  };

  before(async () => {
    [postgres, store, registry, buildkitd] = await Promise.all([
      ...[startPostgres(), startObjectStore(), startRegistry()],
      startBuildkitd(),
    ] as const);
    bucketName = await store.createBucket();
    proxies = [
      await startDistantProxy(await postgres.createDatabase(), distanceMs),
      await startDistantProxy(store.url, distanceMs),
    ];
    directory = await makeTempDir('distance');
    await pushCorpus(registry, ['cfg:full', 'busybox:oci']);
    await start();
  });
  after(async () => {
    await sluice?.stop();
    for (const proxy of proxies ?? []) await proxy[Symbol.asyncDispose]();
    await buildkitd?.stop();
    await registry?.stop();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
    await directory?.remove();
  });

  const trips = () => proxies.map(proxy => proxy.next());
  /** Waits for the work that follows a start or a response. */
  const rest = async () => {
    let last = performance.now();
    await eventually('the server rests', () => {
      if (trips().flat().length > 0) last = performance.now();
      return performance.now() - last > restMs;
    });
  };
  /**
   * Measures an action as a row of the table: the least of some attempts, because regular work of the server may come
   * between. `prepare` runs before each attempt. `over` returns when the action was over.
   */
  const measure = async <Prepared>(
    row: string,
    work: (prepared: Prepared) => Promise<unknown>,
    prepare: (attempt: number) => Promise<Prepared> = async () => undefined as Prepared,
    over: () => number = () => performance.now(),
  ): Promise<void> => {
    const said = table.get(row);
    let least: Cost | undefined;
    const isAbove = () => {
      if (!said || !least) return !least;
      const { postgres, store, series } = least;
      return postgres > said.postgres || store > said.store || series > said.series;
    };
    for (let attempt = 0; attempt < fewest || (attempt < most && isAbove()); attempt += 1) {
      const prepared = await prepare(attempt);
      await rest();
      const began = performance.now();
      await work(prepared);
      const end = over();
      const ms = end - began;
      const [rows = [], objects = []] = trips().map(all => all.filter(({ ended }) => ended <= end));
      const series = inSeries([...rows, ...objects]);
      least = {
        postgres: Math.min(rows.length, least?.postgres ?? rows.length),
        store: Math.min(objects.length, least?.store ?? objects.length),
        series: Math.min(series, least?.series ?? series),
        ms: Math.min(ms, least?.ms ?? ms),
      };
    }
    if (least) measured.set(row, least);
  };

  const request = (name: string, image = known): Promise<ContainerResponse> =>
    sluice.request({
      containerImage: registry.host + image,
      containerConfig: { env: [`NAME=${name}`] },
    });
  const whole = async (address: string): Promise<string> => {
    const response = await fetch(address, { headers: { accept: '*/*' } });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return text;
  };
  const manifest = ({ targetImage }: ContainerResponse) =>
    whole(sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`));
  const pull = async (route: string) => expect(await repository.get(route), 200);

  test('of container requests', async () => {
    await request('first');
    const name = async (attempt: number) => `known ${attempt}`;
    await measure('container request, known image', request, name);
    const pusher = await Pusher.open(registry, 'team/new');
    const push = async (attempt: number) => {
      const image = imageOf({ layers: [await baseLayer()], run: { Labels: { attempt } } });
      await pusher.push(image, String(attempt));
      return `/team/new:${attempt}`;
    };
    await measure('container request, new image', image => request('new', image), push);
    await pusher.close();
    const account = { name: admin.username, password: admin.password };
    const towerAccessToken = await newAccessToken(sluice, account, 'ann@example.org');
    const ask = (env: string) =>
      sluice.request({
        containerImage: registry.host + known,
        containerConfig: { env: [env] },
        towerAccessToken,
      });
    await ask('FIRST=1');
    await measure('container request, with an access token', ask, async at => `USER=${at}`);
  });

  test('of pulls of served names', async () => {
    const served = await request('pulled');
    const { layers } = JSON.parse(await manifest(served)) as Manifest;
    await measure('manifest of a served name', () => manifest(served));
    const layer = sluice.at(served.targetImage, `blobs/${layers[0]?.digest}`);
    await measure('blob of a served name', () => whole(layer));
    await measure(
      'manifest of a served name, first after a start',
      () => manifest(served),
      restart,
    );
  });

  test('of pushes to hosted repositories, and of pulls', async () => {
    // Some calls are due to a new repository.
    expect(await repository.pushBlob(Buffer.from('{}')), 201);
    const fill = (bytes: number) => async () => randomBytes(bytes);
    const pushed: Buffer[] = [];
    const push = async (bytes: Buffer) => {
      expect(await repository.pushBlob(bytes), 201);
      pushed.unshift(bytes);
    };
    await measure('push of a blob of 20 MiB', push, fill(20 * 1024 ** 2));
    await measure('push of a blob of 100 kB', push, fill(100_000));
    const [blob = Buffer.of()] = pushed;
    const route = `blobs/${digestOf(blob)}`;
    await measure('question whether a blob is there', async () =>
      expect(await repository.send('HEAD', route), 200),
    );
    await measure(
      'push of a manifest',
      async (layer: Buffer) =>
        expect(await repository.pushManifest('v', Buffer.from('{}'), [layer]), 201),
      async attempt => pushed[attempt % pushed.length] ?? blob,
    );
    const { headers: about } = await pull('manifests/v');
    await measure('manifest of a hosted repository, by tag', () => pull('manifests/v'));
    await measure('manifest of a hosted repository, by digest', () =>
      pull(`manifests/${about['docker-content-digest']}`),
    );
    await measure('blob of a hosted repository, with a copy on the disk', () => pull(route));
    await measure(
      'manifest of a hosted repository, first after a start',
      () => pull('manifests/v'),
      restart,
    );
    await measure('blob of a hosted repository, first after a start', () => pull(route), restart);
    await measure('blob of a hosted repository, later', () => pull(route));
  });

  test('of logins', async () => {
    await measure('login of a registry client', async () => {
      const response = await sluice.fetch('/v2/token?service=test', { headers });
      assert.equal(response.status, 200, await response.text());
    });
    const body = new URLSearchParams({ name: admin.username, password: admin.password });
    await measure('login of a browser', async () => {
      const response = await sluice.fetch('/view/login', {
        ...{ method: 'POST', redirect: 'manual', body },
        headers: { accept: 'text/html', 'sec-fetch-site': 'same-origin' },
      });
      assert.equal(response.status, 303, await response.text());
    });
  });

  test('of requests for a build that exists', async () => {
    const file = `FROM ${registry.host}/corpus/busybox:oci\nRUN echo far > /made\n`;
    const containerFile = Buffer.from(file).toString('base64');
    const build = async () => (await sluice.request({ containerFile })) as BuildResponse;
    const { buildId } = await build();
    await eventually('the build is over', async () => {
      const response = await sluice.fetch(`/v1alpha1/builds/${buildId}/status`);
      return ((await response.json()) as BuildResponse).status === 'COMPLETED';
    });
    assert.equal((await build()).cached, true);
    await measure('request for a build that exists', build);
  });

  test('of starts', async () => {
    // Regular work of the server begins at the same moment.
    const ready = () => {
      const [, time = ''] = /"time":"([^"]+)"[^\n]*"msg":"ready"/.exec(sluice.output()) ?? [];
      return Date.parse(time) - performance.timeOrigin;
    };
    await measure('start of a server, until it answers', start, stop, ready);
  });

  test('is that of the table', () => {
    const lines = Array.from(
      measured,
      ([row, { postgres, store, series, ms }]) =>
        `| ${row} | ${postgres} | ${store} | ${series} | ${Math.round(ms)} ms |`,
    );
    const counts = (costs: ReadonlyMap<string, Cost>) =>
      Array.from(costs, ([row, { postgres, store, series }]) => ({ row, postgres, store, series }));
    assert.deepEqual(counts(table), counts(measured), `measured:\n${lines.join('\n')}`);
    // What is not delayed is not at a distance.
    for (const cost of [...table.values(), ...measured.values()]) {
      assert.ok(cost.ms >= cost.series * distanceMs, JSON.stringify(cost));
    }
  });
});

interface Manifest {
  readonly layers: readonly { readonly digest: string }[];
}

interface BuildResponse extends ContainerResponse {
  readonly buildId: string;
  readonly cached?: boolean;
  readonly status?: string;
}
