/** A limit of pulls at several replicas, of which those that follow answer some before the leader has counted them. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import pg from 'pg';
import { pushCorpus } from '../corpus/corpus.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import type { Sluice } from '../world/sluice.ts';

// An eightieth of it are two pulls.
const limit = 160;
const names = 200;
const atOnce = 8;

suite('a limit of pulls at three replicas', () => {
  let postgres: Postgres;
  let store: ObjectStore;
  let registry: Registry;
  let replicas: Replicas;
  let database: pg.Client;

  before(async () => {
    [postgres, store, registry] = await Promise.all([
      startPostgres(),
      startObjectStore(),
      startRegistry(),
    ]);
    replicas = await startReplicas({
      ...{ postgres, store, count: 3 },
      config: {
        buildkit: 'off',
        limits: { pulls: { anonymous: `${limit}/hour` } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    database = new pg.Client(replicas.database);
    await database.connect();
  });
  after(async () => {
    await database?.end();
    await replicas?.[Symbol.asyncDispose]();
    await registry?.stop();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  test('is reached, and passed by no more than what may be on its way; each pull is counted', async () => {
    const images = await pushCorpus(registry, ['busybox:oci']);
    const containerImage = images.get('busybox:oci')?.reference ?? assert.fail();
    const leader = replicas.servers[await replicas.leader()] ?? assert.fail();
    const made: string[] = [];
    while (made.length < names) {
      const containerConfig = { env: [`NUMBER=${made.length}`] };
      made.push((await leader.request({ containerImage, containerConfig })).targetImage);
    }
    const follower = replicas.servers.find(server => server !== leader) ?? assert.fail();
    const requests = async () =>
      (await leader.requests()).filter(({ path }) => path.includes('/manifests/')).length;
    const statuses: number[] = [];
    const pull = async (server: Sluice, image: string, client: string): Promise<Response> => {
      const headers = { accept: '*/*', 'x-forwarded-for': client };
      const response = await fetch(server.at(image, 'manifests/oci'), { headers });
      await response.arrayBuffer();
      return response;
    };
    await eventually('a replica answers itself', async () => {
      const before = await requests();
      await pull(follower, made[0] ?? '', '192.0.2.2');
      return (await requests()) === before;
    });
    // The leader need not answer for the next one.
    leader.process.kill('SIGSTOP');
    const second = await pull(follower, made[1] ?? '', '192.0.2.2').finally(() =>
      leader.process.kill('SIGCONT'),
    );
    assert.equal(second.status, 200);
    assert.equal(second.headers.get('ratelimit-remaining'), String(limit - 2));

    const left = [...made.entries()];
    const pullRest = async (): Promise<void> => {
      for (let next = left.shift(); next; next = left.shift()) {
        const [at, image] = next;
        const server = replicas.servers[(at * 7) % 3] ?? leader;
        statuses.push((await pull(server, image, '192.0.2.1')).status);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, pullRest));
    const admitted = statuses.filter(status => status === 200).length;
    const refused = statuses.filter(status => status === 429).length;
    assert.equal(admitted + refused, names, statuses.join());
    assert.ok(admitted >= limit && admitted <= limit + 4, `${admitted} pulls`);
    for (const server of [...replicas.servers.filter(one => one !== leader), leader]) {
      await server.stop();
    }
    const { rows } = await database.query(
      `SELECT sum(count) FROM pulls WHERE subject LIKE 'container %'`,
    );
    // And those of the other client.
    assert.equal(Number(rows[0].sum), admitted + 2);
  });
});
