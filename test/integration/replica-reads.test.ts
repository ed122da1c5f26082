/** Replicas that do not lead answer pulls from the rows and the bucket: what holds at the leader holds there at once. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import pg from 'pg';
import { digestOf } from '../../src/oci/digest.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { basic, Repository } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Standby, startStandby } from '../world/postgres-standby.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import { type SilentProxy, startSilentProxy } from '../world/silent-proxy.ts';
import type { ContainerResponse, Sluice } from '../world/sluice.ts';
import { accounts, admin } from './hosted.ts';

interface Manifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string }[];
}

const login = basic(admin.username, admin.password);
const limit = 4;

suite('reads of a replica that follows', () => {
  const [layer, other] = [randomBytes(300_000), randomBytes(1000)];
  let postgres: Postgres;
  let store: ObjectStore;
  let registry: Registry;
  let replicas: Replicas;
  let proxy: SilentProxy;
  let standby: Standby;
  let database: pg.Client;
  let image: string;
  let leads: Sluice;
  let follows: Sluice;

  before(async () => {
    [postgres, store, registry] = await Promise.all([
      startPostgres(),
      startObjectStore(),
      startRegistry(),
    ]);
    image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    replicas = await startReplicas({
      ...{ postgres, store, count: 2 },
      config: {
        accounts,
        hosted: { anonymous: ['public/*'] },
        limits: { pulls: { anonymous: `${limit}/hour` } },
        rightLife: '1s',
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    database = new pg.Client(replicas.database);
    await database.connect();
    // The connections of the one that follows can be cut.
    proxy = await startSilentProxy(replicas.database);
    standby = await startStandby(replicas.database);
    const leader = await replicas.leader();
    leads = replicas.servers[leader] ?? assert.fail();
    await replicas.servers[1 - leader]?.stop();
    follows = await replicas.start(1 - leader, {
      SLUICE_DATABASE: proxy.url,
      SLUICE_READ_REPLICA_DATABASE: standby.addressOf(replicas.database),
      SLUICE_READ_REPLICA_MAX_AGE: '3s',
    });
    await new Repository(leads, 'public/app', login).pushImage('one', [layer]);
    await new Repository(leads, 'team/app', login).pushImage('one', [other]);
    await eventually('it answers itself', async () => {
      await at(follows, '/v2/public/app/manifests/one');
      return (await askedOf(leads, '/v2/public/app/manifests/one')) === 0;
    });
  });
  after(async () => {
    await database?.end();
    await replicas?.[Symbol.asyncDispose]();
    await proxy?.[Symbol.asyncDispose]();
    await standby?.[Symbol.asyncDispose]();
    await registry?.stop();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  const at = (server: Sluice, path: string, headers = {}) =>
    server.fetch(path, { headers: { accept: '*/*', ...headers } });
  /** Requests since the last call, with this end of their path. */
  const seen = new Map<string, number>();
  const askedOf = async (server: Sluice, path: string): Promise<number> => {
    const all = (await server.requests()).filter(request => request.path.endsWith(path)).length;
    const before = seen.get(server.url + path) ?? 0;
    seen.set(server.url + path, all);
    return all - before;
  };
  const request = (env: string): Promise<ContainerResponse> =>
    leads.request({ containerImage: image, containerConfig: { env: [env] } });
  const pull = (server: Sluice, { targetImage }: ContainerResponse, client: string) =>
    fetch(server.at(targetImage, 'manifests/oci'), {
      headers: { accept: '*/*', 'x-forwarded-for': client },
    });
  const remaining = (response: Response) => response.headers.get('ratelimit-remaining');
  /** One that has not heard of the database for two seconds, on a machine that stood still, asks the leader: it is asked again. */
  const answersItself = (path: string, ask: () => Promise<unknown>) =>
    eventually(`the one that follows answers ${path} itself`, async () => {
      await askedOf(leads, path);
      const response = await ask();
      if (response instanceof Response) await response.arrayBuffer();
      return (await askedOf(leads, path)) === 0;
    });

  test('of a container token: manifests, blobs, tags', async () => {
    const made = await request('A=1');
    await askedOf(leads, '/manifests/oci');
    const response = await pull(follows, made, '192.0.2.1');
    const bytes = Buffer.from(await response.arrayBuffer());
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('docker-content-digest'), digestOf(bytes));
    assert.equal(remaining(response), String(limit - 1));
    const { config } = JSON.parse(bytes.toString()) as { config: { digest: string } };
    const blob = await fetch(follows.at(made.targetImage, `blobs/${config.digest}`));
    assert.equal(digestOf(Buffer.from(await blob.arrayBuffer())), config.digest);
    const tags = await fetch(follows.at(made.targetImage, 'tags/list'));
    assert.deepEqual(((await tags.json()) as { tags: string[] }).tags, ['oci']);
    await answersItself('/manifests/oci', () => pull(follows, made, '192.0.2.1'));
    const served = (route: string) => () => fetch(follows.at(made.targetImage, route));
    await answersItself(config.digest, served(`blobs/${config.digest}`));
    await answersItself('/tags/list', served('tags/list'));
  });

  test('of hosted repositories, with the token of a login and without', async () => {
    const path = '/v2/team/app/manifests/one';
    await askedOf(leads, path);
    const challenge = await at(follows, path);
    assert.equal(challenge.status, 401);
    assert.match(challenge.headers.get('www-authenticate') ?? '', /scope="repository:team/);
    assert.equal((await at(follows, '/v2/')).status, 401);
    await answersItself(path, () => at(follows, path));
    const issued = await at(follows, '/v2/token?scope=repository:team/app:pull', login);
    const { token } = (await issued.json()) as { token: string };
    const response = await at(follows, path, { authorization: `Bearer ${token}` });
    assert.equal(response.status, 200);
    await answersItself(path, () => at(follows, path, { authorization: `Bearer ${token}` }));
    const blob = `/v2/public/app/blobs/${digestOf(layer)}`;
    assertBytes(Buffer.from(await (await at(follows, blob)).arrayBuffer()), layer);
    assert.equal((await at(follows, '/v2/public/app/tags/list')).status, 200);
    await answersItself(blob, () => at(follows, blob));
    await answersItself('/tags/list', () => at(follows, '/v2/public/app/tags/list'));
    await askedOf(leads, path);
    // The leader counts failed logins.
    assert.equal((await at(follows, path, basic('admin', 'wrong'))).status, 401);
    assert.equal(await askedOf(leads, path), 1);
  });

  test('of a request with an access token, as long as the leader says that the right holds', async () => {
    const platformAccessToken = await newAccessToken(
      leads,
      { name: admin.username, password: admin.password },
      'ada@example.org',
    );
    const made = await leads.request({
      containerImage: image,
      containerConfig: { env: ['A=5'] },
      towerAccessToken: platformAccessToken,
    });
    await askedOf(leads, '/manifests/oci');
    const response = await pull(follows, made, '192.0.2.8');
    assert.equal(response.status, 200);
    assert.ok(remaining(response));
    const { config, layers } = (await response.json()) as Manifest;
    const read = (digest: string) =>
      fetch(follows.at(made.targetImage, `blobs/${digest}`)).then(async blob =>
        digestOf(Buffer.from(await blob.arrayBuffer())),
      );
    assert.equal(await read(config.digest), config.digest);
    await answersItself('/manifests/oci', () => pull(follows, made, '192.0.2.8'));
    await answersItself(config.digest, () => read(config.digest));
    // The leader knows the credentials for what only the registry has.
    const [layer] = layers;
    assert.ok(layer);
    assert.equal(await read(layer.digest), layer.digest);
    assert.equal(await askedOf(leads, layer.digest), 1);
    const user = await leads.fetch('/platform/users', { headers: login });
    const { users } = (await user.json()) as { users: { id: number; email: string }[] };
    const { id } = users.find(({ email }) => email === 'ada@example.org') ?? assert.fail();
    const removed = await leads.fetch(`/platform/users/${id}`, {
      method: 'DELETE',
      headers: login,
    });
    assert.ok(removed.ok, String(removed.status));
    const status = async (server: Sluice) => (await pull(server, made, '192.0.2.8')).status;
    await eventually('it ends at the leader', async () => (await status(leads)) === 403);
    const began = performance.now();
    await eventually('it ends here', async () => (await status(follows)) === 403);
    assert.ok(performance.now() - began < 10_000);
  });

  test('end with what the leader has acknowledged', async () => {
    const made = await request('A=2');
    assert.equal((await pull(follows, made, '192.0.2.2')).status, 200);
    await leads.fetch(`/container-token/${made.containerToken}`, {
      method: 'DELETE',
      headers: login,
    });
    assert.equal((await pull(follows, made, '192.0.2.2')).status, 404);
    const repository = new Repository(leads, 'public/app', login);
    const path = '/v2/public/app/manifests/moved';
    for (const bytes of [randomBytes(10), randomBytes(20)]) {
      const digest = await repository.pushImage('moved', [bytes]);
      const response = await at(follows, path);
      assert.equal(response.headers.get('docker-content-digest'), digest);
    }
    assert.equal((await repository.send('DELETE', 'manifests/moved')).status, 202);
    assert.equal((await at(follows, path)).status, 404);
  });

  test('count with those of the leader, and no limit is passed', async () => {
    const client = '192.0.2.3';
    const answers: (readonly [number, string | null])[] = [];
    const mades = await Promise.all(Array.from({ length: limit + 1 }, (_, n) => request(`B=${n}`)));
    for (const [n, made] of mades.entries()) {
      // The second request is part of the same pull, at either server.
      for (const server of n % 2 === 0 ? [follows, leads] : [leads, follows]) {
        const response = await pull(server, made, client);
        answers.push([response.status, remaining(response)]);
      }
    }
    const admitted = Array.from({ length: limit }, (_, n) => [200, `${limit - n - 1}`]);
    const invented = { 'sluice-pulls': 'yes', 'sluice-replica': 'x', 'sluice-peer': client };
    const told = await leads.fetch('/healthz', { method: 'POST', headers: invented, body: '[]' });
    assert.equal(told.status, 405);
    assert.deepEqual(answers, [...admitted.flatMap(one => [one, one]), [429, '0'], [429, '0']]);
  });

  test('tell the state of requests and builds', async () => {
    const made = await request('A=6');
    const path = `/v1alpha2/container/${made.requestId}/status`;
    const answers = async (server: Sluice, path: string) => {
      const response = await at(server, path);
      const { duration: _, ...body } = (await response.json()) as Record<string, unknown>;
      return { status: response.status, type: response.headers.get('content-type'), body };
    };
    const asked = async (path: string) => {
      let answer = await answers(follows, path);
      await answersItself(path, async () => {
        answer = await answers(follows, path);
      });
      assert.deepEqual(answer, await answers(leads, path));
      return answer;
    };
    const done = await asked(path);
    assert.deepEqual([done.status, done.body.status, done.body.succeeded], [200, 'DONE', true]);
    await leads.fetch(`/container-token/${made.containerToken}`, {
      method: 'DELETE',
      headers: login,
    });
    assert.equal((await at(follows, path)).status, 404);

    const enter = (id: string, values: string) =>
      database.query(
        `INSERT INTO builds (id, build_key, number, target, plan, owner, trusted, created_at, started_at, finished_at, kept_until, succeeded)
         VALUES ($1, $1, 1, 'example.com/builds:' || $1, '{}', '192.0.2.1', 0, 1000, ${values})`,
        [id],
      );
    await enter('0123456789abcdef_1', '2000, NULL, NULL, NULL');
    await enter('0123456789abcdef_2', '2000, 3000, 99999999999999, 0');
    const running = await asked('/v1alpha1/builds/bd-0123456789abcdef_1/status');
    assert.equal(running.body.phase, 'running');
    const failed = await asked('/v1alpha1/builds/0123456789abcdef_2/status');
    assert.equal(failed.body.succeeded, false);
    // The leader says what does not exist, and what nobody has set up.
    for (const other of ['builds/0123456789abcdef_3/status', 'scans/sc-1']) {
      const path = `/v1alpha1/${other}`;
      await askedOf(leads, path);
      assert.ok((await at(follows, path)).status >= 404);
      assert.equal(await askedOf(leads, path), 1);
    }
  });

  test('of catalogs come from a read replica of the database that is current', async () => {
    const issued = await at(follows, '/v2/token?scope=registry:catalog:*', login);
    const { token } = (await issued.json()) as { token: string };
    const authorization = `Bearer ${token}`;
    const names = async () =>
      (
        (await (await at(follows, '/v2/_catalog', { authorization })).json()) as {
          repositories: string[];
        }
      ).repositories;
    const metric = async () =>
      /^sluice_read_replica_used (\d)$/m.exec(await (await at(follows, '/metrics')).text())?.[1];
    assert.ok((await names()).includes('team/app'));
    await eventually('the read replica is used', async () => (await metric()) === '1');
    const client = new pg.Client(standby.addressOf(replicas.database));
    await client.connect();
    await client.query('SELECT pg_wal_replay_pause()');
    const paused = performance.now();
    await new Repository(leads, 'public/later', login).pushImage('one', [other]);
    assert.equal((await at(follows, '/v2/public/later/manifests/one')).status, 200);
    const early = await names();
    // On a machine that stood still, the read replica is too old by now.
    if (performance.now() - paused < 2500) assert.ok(!early.includes('public/later'));
    await eventually('it is too old', async () => (await names()).includes('public/later'), 10_000);
    assert.equal(await metric(), '0');
    assert.equal((await at(follows, '/readyz')).status, 200);
    await eventually('the log says so', () =>
      /the read replica is not used/.test(follows.output()),
    );
    await client.query('SELECT pg_wal_replay_resume()');
    await client.end();
  });

  test('go on without a leader', async () => {
    const made = await request('A=3');
    assert.equal((await pull(follows, made, '192.0.2.4')).status, 200);
    leads.process.kill('SIGSTOP');
    try {
      assert.equal((await at(follows, '/v2/public/app/manifests/one')).status, 200);
      assert.equal((await pull(follows, made, '192.0.2.5')).status, 200);
    } finally {
      leads.process.kill('SIGCONT');
    }
  });

  test('are left to the leader when its rows have another schema', async () => {
    const path = '/v2/public/app/manifests/one';
    const isAnswered = async () => {
      assert.equal((await at(follows, path)).status, 200);
      return (await askedOf(leads, path)) === 0;
    };
    await database.query('UPDATE sluice_schema SET version = version + 1');
    const began = performance.now();
    await eventually('the leader answers', async () => !(await isAnswered()));
    assert.ok(performance.now() - began < 10_000);
    await database.query('UPDATE sluice_schema SET version = version - 1');
    await eventually('it answers itself again', isAnswered);
  });

  test('are left to the leader without the database', async () => {
    const path = '/v2/public/app/manifests/one';
    proxy.silence();
    assert.equal((await at(follows, path)).status, 200);
    assert.equal(await askedOf(leads, path), 1);
    // The driver would wait for the end of the connections that are silent.
    proxy.refuse();
    proxy.resume();
    await eventually('it answers itself again', async () => {
      assert.equal((await at(follows, path)).status, 200);
      return (await askedOf(leads, path)) === 0;
    });
  });

  test('are counted once each, also after both have stopped', async () => {
    const made = await request('A=4');
    for (const client of ['192.0.2.6', '192.0.2.7', '192.0.2.6']) {
      assert.equal((await pull(follows, made, client)).status, 200);
    }
    await new Repository(leads, 'public/counted', login).pushImage('one', [other]);
    for (const client of ['192.0.2.6', '192.0.2.7', '192.0.2.6']) {
      const headers = { 'x-forwarded-for': client };
      assert.equal((await at(follows, '/v2/public/counted/manifests/one', headers)).status, 200);
    }
    await follows.stop();
    await leads.stop();
    assert.deepEqual([follows.process.exitCode, leads.process.exitCode], [0, 0]);
    const counted = async (subject: string): Promise<number> => {
      const found = await database.query('SELECT count FROM pulls WHERE subject = $1', [subject]);
      return Number(found.rows[0]?.count);
    };
    const hash = await database.query("SELECT encode(sha256($1), 'hex') AS hash", [
      made.containerToken,
    ]);
    assert.equal(await counted(`container ${hash.rows[0].hash}`), 2);
    const { rows: hosted } = await database.query(
      "SELECT subject, count FROM pulls WHERE subject LIKE '%public/counted%'",
    );
    assert.ok(hosted.length > 0);
    for (const { count } of hosted) assert.equal(Number(count), 2);
  });
});
