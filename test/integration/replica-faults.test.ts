/** What anonymous callers send to replicas, and what happens to them when a leader or its database is cut off. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createCurrentLeader } from '../../src/server/replicas/current-leader.ts';
import { createFollowerReadiness } from '../../src/server/replicas/follower.ts';
import { readReplicaKeys } from '../../src/server/replicas/replica.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { basic } from '../hosted/push-client.ts';
import { pair, pairingUrl, refusal } from '../platform/pairing-peer.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import type { ContainerResponse, Sluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { accounts, admin } from './hosted.ts';

const pairingToken = 'a long pairing token';
const endpoint = 'https://platform.example.com/api';
const perHour = 6;

suite('two replicas', () => {
  let postgres: Postgres;
  let store: ObjectStore;
  let registry: Registry;
  let replicas: Replicas;

  before(async () => {
    [postgres, store, registry] = await Promise.all([
      startPostgres(),
      startObjectStore(),
      startRegistry(),
    ]);
    await pushCorpus(registry, ['cfg:full']);
    replicas = await startReplicas({
      ...{ postgres, store, count: 2 },
      config: {
        accounts,
        buildkit: 'off',
        limits: { requests: { anonymous: `${perHour}/hour` } },
        platform: { pairingToken, allow: ['platform.example.com'] },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await replicas?.[Symbol.asyncDispose]();
    await registry?.stop();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  const server = (position: number): Sluice => {
    const found = replicas.servers[position];
    assert.ok(found);
    return found;
  };
  const ask = (at: Sluice, headers: Readonly<Record<string, string>> = {}) =>
    at.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ containerImage: `${registry.host}/corpus/cfg:full` }),
    });
  const roles = async () => {
    const leads = await replicas.leader();
    assert.ok(leads >= 0);
    return { leads, leader: server(leads), follower: server(1 - leads) };
  };

  test('one that does not lead wants no body that another one hands on', async () => {
    const { follower } = await roles();
    const { proof } = readReplicaKeys(replicas.keys);
    const asking = request(`${follower.url}/v1alpha2/container`, {
      method: 'POST',
      headers: {
        ...{ 'sluice-replica': proof, 'sluice-peer': '192.0.2.1' },
        ...{ expect: '100-continue', 'content-length': 100 },
      },
    });
    asking.on('continue', () => assert.fail('the body would be lost'));
    asking.flushHeaders();
    const [response] = (await once(asking, 'response')) as [IncomingMessage];
    assert.deepEqual([response.statusCode, response.headers['sluice-replica']], [503, 'follows']);
    asking.destroy();
  });

  test('count the requests of an address together, and nobody can invent one', async () => {
    const from = (address: string, more = {}) => ({ 'x-forwarded-for': address, ...more });
    const statuses: number[] = [];
    for (let round = 0; round <= perHour; round += 1) {
      statuses.push((await ask(server(round % 2), from('192.0.2.1'))).status);
    }
    assert.deepEqual(statuses, [...Array.from({ length: perHour }, () => 200), 429]);
    for (const at of replicas.servers) {
      assert.equal((await ask(at, from('192.0.2.2'))).status, 200);
      // Without the address of a proxy, that of the connection counts: for both replicas the same one.
      const invented = { 'sluice-replica': 'x'.repeat(43), 'sluice-peer': '192.0.2.3' };
      assert.equal((await ask(at, invented)).status, 200);
    }
    const again: number[] = [];
    for (let round = 0; round < perHour; round += 1) {
      const peer = { 'sluice-replica': 'follows', 'sluice-peer': `192.0.2.${round + 10}` };
      again.push((await ask(server(round % 2), peer)).status);
    }
    assert.equal(again.at(-1), 429, again.join());
  });

  test('answer as one server does: statuses, reasons, headers', async () => {
    const { leader, follower } = await roles();
    for (const [path, init] of [
      ['/v2/', {}],
      ['/v2/ct/000000000000/a/b/manifests/latest', { method: 'HEAD' }],
      ['/v2/team/app/blobs/uploads/', { method: 'POST' }],
      ['/v1alpha2/container', { method: 'DELETE' }],
      ['/no/such/route', {}],
      ['/service-info', {}],
    ] as const) {
      const [one, other] = await Promise.all([
        leader.fetch(path, init),
        follower.fetch(path, init),
      ]);
      const seen = async (response: Response) => ({
        status: response.status,
        reason: response.statusText.replaceAll(/[0-9a-f]{12}/g, ''),
        names: [...response.headers.keys()].filter(name => name !== 'keep-alive'),
        body: (await response.text()).replaceAll(/[0-9a-f]{12}/g, ''),
      });
      assert.deepEqual(await seen(other), await seen(one), path);
    }
  });

  test('end a connection whose body nobody reads, and speak HTTP/1.0', async () => {
    const { follower } = await roles();
    const old = await rawExchange(follower, 'GET /service-info HTTP/1.0\r\n\r\n');
    assert.match(old, /^HTTP\/1\.1 200 OK\r\n[\s\S]*serviceInfo/);
    assert.doesNotMatch(old, /transfer-encoding/i);
    const unread = await rawExchange(
      follower,
      `POST /v1alpha2/container HTTP/1.1\r\nhost: ${follower.host}\r\ncontent-length: ${1024 ** 4}\r\n\r\n${'x'.repeat(70_000)}`,
    );
    assert.match(unread, /^HTTP\/1\.1 4\d\d /);
    assert.match(unread, /\r\nconnection: close\r\n/i);
    assert.equal(unread.match(/^HTTP\/1\.1 /gm)?.length, 1);
  });

  test('pair with a platform that reaches a replica which does not lead', async () => {
    const { follower } = await roles();
    const at = `ws://${follower.host}`;
    const peer = await pair(pairingUrl(at, pairingToken, endpoint), () => ({ status: 200 }));
    assert.match(peer.publicKey, /^[A-Za-z0-9+/=]+$/);
    peer.socket.terminate();
    const { status, message } = await refusal(pairingUrl(at, 'a wrong token', endpoint));
    assert.equal(status, 403);
    assert.notEqual(message, '');
  });

  test('a replica without the keys of the others does not start', async () => {
    const directory = await makeTempDir('replica-keys');
    const env = {
      ...store.env,
      SLUICE_DATA: directory.join('data'),
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_BUILDKIT: 'off',
      SLUICE_DATABASE: replicas.database,
      SLUICE_CONTENT: 's3://none',
      SLUICE_URL: replicas.balancer.url,
      SLUICE_REPLICA_ADDRESS: 'http://127.0.0.1:1',
      SLUICE_REPLICA_KEYS: directory.path,
    };
    try {
      const without = await sluiceCommand(['serve'], env);
      assert.equal(without.code, 2);
      assert.match(without.stderr, /secrets\.key is missing.*head -c 32/);
      for (const name of ['secrets.key', 'registry-token.key']) {
        await writeFile(directory.join(name), Buffer.alloc(32, name));
      }
      const others = await sluiceCommand(['serve'], env);
      assert.equal(others.code, 2, others.stdout);
      assert.match(others.stderr, /are not those of the leading replica/);
    } finally {
      await directory.remove();
    }
  });

  test('keep their leader when the database restarts', async () => {
    const { leads, follower } = await roles();
    await postgres.crash();
    await postgres.start();
    await eventually('requests are answered again', async () => {
      const response = await ask(follower, { 'x-forwarded-for': `192.0.2.${Date.now() % 90}` });
      return response.status === 200;
    });
    await eventually('one leads', async () => (await replicas.leader()) >= 0);
    const now = await roles();
    // The other one may have been faster. Then the former leader starts again.
    if (now.leads !== leads) await replicas.start(leads);
  });

  test('a replica of an older version follows a newer one, and does not lead', async () => {
    const { leads, follower } = await roles();
    const client = new pg.Client(replicas.database);
    await client.connect();
    // What a newer version does when it leads.
    await client.query('UPDATE sluice_schema SET version = version + 1');
    try {
      await follower.stop();
      const again = await replicas.start(1 - leads);
      assert.equal((await ask(again, { 'x-forwarded-for': '198.51.100.4' })).status, 200);
      await server(leads).kill();
      // Twice the time in which a replica takes the lead.
      await sleep(2000);
      assert.equal(await replicas.leader(), -1);
      const readiness = await again.fetch('/readyz');
      assert.equal(readiness.status, 503);
      assert.match(await readiness.text(), /A newer version .* has changed the schema/);
    } finally {
      await client.query('UPDATE sluice_schema SET version = version - 1');
      await client.end();
    }
    await eventually('it leads', async () => (await replicas.leader()) === 1 - leads);
    await replicas.start(leads);
    assert.equal((await ask(server(leads), { 'x-forwarded-for': '198.51.100.5' })).status, 200);
  });

  test('a replica that cannot lead ends, so that its supervisor starts it again', async () => {
    const { leads, leader, follower } = await roles();
    const ended = new Promise<number | null>(resolve => follower.process.once('exit', resolve));
    await store.kill();
    await leader.kill();
    assert.equal(await ended, 1);
    await store.start();
    const again = await replicas.start(leads);
    await replicas.start(1 - leads);
    assert.equal((await ask(again, { 'x-forwarded-for': '198.51.100.3' })).status, 200);
  });

  test('the others stay ready while a leader stops and the next one begins', async () => {
    const { leads, leader, follower } = await roles();
    const readiness = (at: Sluice) =>
      at.fetch('/readyz').then(
        ({ status }) => status,
        () => 0,
      );
    assert.equal(await readiness(follower), 200);
    // The leader waits for the end of this request.
    const { socket, closed } = await openUpload(leader);
    const ended = new Promise<number | null>(resolve => leader.process.once('exit', resolve));
    leader.process.kill('SIGTERM');
    // On a machine that stood still, it refuses connections already.
    await eventually('the leader is not ready', async () => (await readiness(leader)) !== 200);
    assert.equal(await readiness(follower), 200);
    await eventually('the leader refuses connections', async () => (await readiness(leader)) === 0);
    assert.equal(leader.process.exitCode, null);
    assert.equal(await readiness(follower), 200);
    socket.destroy();
    await closed;
    await Promise.race([
      ended,
      eventually('the other one leads', async () => {
        assert.equal(await readiness(follower), 200);
        const text = await (await follower.fetch('/metrics')).text();
        return /^sluice_replica_leads 1$/m.test(text);
      }),
    ]);
    assert.equal(await ended, 0);
    assert.equal(await readiness(await replicas.start(leads)), 200);
  });

  test('a leader that was cut off changes nothing, and ends', async () => {
    const { leads, leader, follower } = await roles();
    const response = await ask(leader, { 'x-forwarded-for': '198.51.100.9' });
    const served = (await response.json()) as ContainerResponse;
    const pull = () =>
      fetch(leader.at(served.targetImage, `manifests/${served.targetImage.split(':').at(-1)}`), {
        headers: { accept: '*/*' },
      });
    assert.equal((await pull()).status, 200);
    leader.process.kill('SIGSTOP');
    const client = new pg.Client(replicas.database);
    await client.connect();
    await client.query(`SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l
      ON a.pid = l.pid WHERE l.locktype = 'advisory'`);
    await eventually('the other one leads', async () => {
      const text = await (await follower.fetch('/metrics')).text();
      return /^sluice_replica_leads 1$/m.test(text);
    });
    const { rows } = await client.query(
      `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'sluice server'
       AND backend_start < (SELECT backend_start FROM pg_stat_activity a JOIN pg_locks l
       ON a.pid = l.pid WHERE l.locktype = 'advisory' LIMIT 1)`,
    );
    assert.equal(rows[0]?.count, 0, 'the connections of the former leader are gone');
    await client.end();
    assert.equal((await ask(follower, { 'x-forwarded-for': '198.51.100.1' })).status, 200);
    const revoked = await follower.fetch(`/container-token/${served.containerToken}`, {
      method: 'DELETE',
      headers: basic(admin.username, admin.password),
    });
    assert.equal(revoked.status, 200);
    const ended = new Promise<number | null>(resolve => leader.process.once('exit', resolve));
    leader.process.kill('SIGCONT');
    // It had the token in memory.
    for (let isThere = true; isThere; ) {
      const found = await pull().catch(() => undefined);
      assert.notEqual(found?.status, 200);
      isThere = found !== undefined;
    }
    assert.equal(await ended, 1);
    const again = await replicas.start(leads);
    assert.equal((await ask(again, { 'x-forwarded-for': '198.51.100.2' })).status, 200);
  });
});

test('a replica stays ready without a leader, but not for ever', async () => {
  let response: { status: number; body: string } | undefined;
  let now = 0;
  const readiness = createFollowerReadiness({ ask: async () => response }, () => now);
  const asked = {} as IncomingMessage;
  await assert.rejects(readiness(asked), /No server of this site leads/);
  response = { status: 503, body: '{}' };
  assert.deepEqual(await readiness(asked), response);
  response = undefined;
  now = 29_000;
  assert.equal((await readiness(asked)).status, 200);
  now = 31_000;
  await assert.rejects(readiness(asked), /No server of this site leads/);
});

/** Begins a request that the server has to finish, and leaves it open. */
async function openUpload({ port }: Sluice): Promise<{ socket: Socket; closed: Promise<unknown> }> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  const closed = once(socket, 'close');
  const head = 'POST /v1alpha2/container HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n';
  socket.write(`${head}Expect: 100-continue\r\n\r\n`);
  await once(socket, 'data');
  socket.write('{');
  return { socket, closed };
}

/** Returns what a server sends until it ends the connection. */
function rawExchange({ port }: Sluice, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let received = '';
    socket.setEncoding('utf8').on('data', text => {
      received += text;
    });
    socket.on('error', reject).on('end', () => {
      socket.destroy();
      resolve(received);
    });
    socket.write(bytes);
  });
}

test('a request waits for a leader, but not for ever', async () => {
  const leader = createCurrentLeader(300);
  const work = leader.reach(
    async () => 'answered',
    () => true,
  );
  await assert.rejects(work, /No server of this site has taken the lead yet/);
  let asked = 0;
  const later = leader.reach(
    async () => {
      asked += 1;
      return 'answered';
    },
    () => true,
  );
  leader.set(new URL('http://127.0.0.1:1'));
  await later;
  assert.equal(asked, 1);
  // The response took longer than the patience, and then its leader ended.
  let attempts = 0;
  await leader.reach(
    async () => {
      attempts += 1;
      if (attempts === 1) await sleep(400);
      return attempts === 2 ? 'answered' : 'ended';
    },
    () => true,
  );
  const { signal } = leader;
  leader.set(undefined);
  assert.equal(signal.aborted, false, 'the last leader may finish what it does');
  leader.set(new URL('http://127.0.0.1:2'));
  assert.equal(signal.aborted, true);
});
