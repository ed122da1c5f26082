/** A leader that stops gives up its lead first, and then finishes its transfers. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage, request } from 'node:http';
import { after, before, suite, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { digestOf } from '../../src/oci/digest.ts';
import { openReplicaList } from '../../src/storage/rows/postgres/index.ts';
import { basic, expect, Repository } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { delayedMs } from '../world/processor-time.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import { shiftedClock } from '../world/shifted-clock.ts';
import { startSilentProxy } from '../world/silent-proxy.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { accounts, admin } from './hosted.ts';

const login = basic(admin.username, admin.password);
// More than the buffers of a connection hold.
const large = randomBytes(48 * 1024 ** 2);

suite('the lead is handed over', () => {
  let postgres: Postgres;
  let store: ObjectStore;
  let replicas: Replicas;

  before(async () => {
    [postgres, store] = await Promise.all([startPostgres(), startObjectStore()]);
    replicas = await startReplicas({
      ...{ postgres, store, count: 2 },
      config: { accounts, buildkit: 'off' },
      // A second signal ends the delay.
      env: { SLUICE_STOP_DELAY: '1h' },
    });
    expect(await new Repository(server(0), 'team/large', login).pushBlob(large), 201);
  });
  after(async () => {
    await Promise.all((replicas?.servers ?? []).map(one => one.kill()));
    await replicas?.[Symbol.asyncDispose]();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  const server = (position: number): Sluice => {
    const found = replicas.servers[position];
    assert.ok(found);
    return found;
  };
  const roles = async () => {
    const leads = await replicas.leader();
    assert.ok(leads >= 0);
    return { leads, leader: server(leads), follower: server(1 - leads) };
  };
  const metricsOf = async (at: Sluice) => (await at.fetch('/metrics')).text();
  const ended = ({ process }: Sluice) =>
    new Promise<number | null>(resolve => process.once('exit', resolve));

  /** No replica can get the lock. */
  const nobodyWaits = async () => {
    await using list = await openReplicaList(replicas.database);
    await eventually('nobody waits', async () => (await list.list()).length === 0);
  };

  /** Returns the pull of a name that the server has made. */
  const servedName = async (at: Sluice) => {
    await new Repository(at, 'public/known', login).pushImage('x', []);
    const { host } = new URL(replicas.balancer.url);
    const { targetImage } = await at.request({ containerImage: `${host}/public/known:x` });
    const route = `manifests/${targetImage.split(':').at(-1)}`;
    return (from: Sluice) => fetch(from.at(targetImage, route), { headers: { accept: '*/*' } });
  };

  /** Begins to read the large blob, and stops after its first bytes. */
  const beginSlowly = async (at: Sluice, headers = {}) => {
    const url = `${at.url}/v2/team/large/blobs/${digestOf(large)}`;
    const asked = get(url, { agent: false, headers: { ...login, ...headers } });
    const [transfer] = (await once(asked, 'response')) as [IncomingMessage];
    assert.equal(transfer.statusCode, 200);
    transfer.pause();
    return {
      async finish() {
        const hash = createHash('sha256');
        for await (const bytes of transfer) hash.update(bytes);
        assert.equal(`sha256:${hash.digest('hex')}`, digestOf(large));
      },
      stop: () => transfer.destroy(),
    };
  };

  /** For each handover, how long the longest write would have waited if this machine had no other work (ms). */
  const waits: number[] = [];
  /**
   * Pushes images through the server until it is stopped. Returns the longest time of one write (ms), and without the time for
   * which other work had the processors of the next leader, or of this process.
   */
  const writeTo = (at: Sluice, name: string, next = at) => {
    const delayed = () => delayedMs(next.process.pid) + delayedMs(process.pid);
    let isDone = false;
    const work = async () => {
      const longest = { ms: 0, ownMs: 0 };
      for (let round = 0; !isDone; round += 1) {
        const repository = new Repository(at, `team/${name}`, login);
        const config = Buffer.from(`{"round":"${name}-${round}"}`);
        for (const write of [
          () => repository.pushBlob(config),
          () => repository.pushManifest(`r${round}`, config),
        ]) {
          const [began, delayedBefore] = [performance.now(), delayed()];
          expect(await write(), 201);
          const ms = performance.now() - began;
          longest.ms = Math.max(longest.ms, ms);
          longest.ownMs = Math.max(longest.ownMs, ms - (delayed() - delayedBefore));
        }
      }
      return longest;
    };
    const running = work();
    running.catch(() => {});
    return () => {
      isDone = true;
      return running;
    };
  };
  /** Ends the writes, and notes how long they waited for the next leader. */
  const endWrites = async (t: TestContext, stops: readonly ReturnType<typeof writeTo>[]) => {
    const longest = await Promise.all(stops.map(stop => stop()));
    const [ms, ownMs] = [
      Math.max(...longest.map(one => one.ms)),
      Math.max(...longest.map(one => one.ownMs)),
    ].map(Math.round);
    t.diagnostic(`longest write: ${ms} ms, ${ownMs} ms without other work of the machine`);
    waits.push(ownMs ?? 0);
    assert.ok((ms ?? 0) < 15_000, String(ms));
  };

  test('before the transfers of the leader end, and writes go on', async t => {
    const { leads, leader, follower } = await roles();
    const slow = await beginSlowly(leader);
    const writes = [writeTo(leader, 'former', follower), writeTo(follower, 'next')];
    const end = ended(leader);
    leader.process.kill('SIGTERM');
    await eventually('the other one leads', async () => (await replicas.leader()) === 1 - leads);
    // Both ways lead to the new leader now.
    for (const at of [leader, follower]) {
      await new Repository(at, 'team/after', login).pushImage('x', []);
    }
    await endWrites(t, writes);
    assert.equal((await leader.fetch('/readyz')).status, 503);
    await slow.finish();
    leader.process.kill('SIGTERM');
    assert.equal(await end, 0);
    assert.doesNotMatch(leader.output(), /"level":"(?:error|fatal)"/);
    assert.equal((await replicas.start(leads)).process.exitCode, null);
  });

  test('and the former leader does not lead again when the next one is killed', async t => {
    const { leads, leader, follower } = await roles();
    const slow = await beginSlowly(leader);
    const writes = [writeTo(leader, 'again-former', follower), writeTo(follower, 'again-next')];
    const end = ended(leader);
    leader.process.kill('SIGTERM');
    await eventually('the other one leads', async () => (await replicas.leader()) === 1 - leads);
    await endWrites(t, writes);
    await follower.kill();
    const write = new Repository(leader, 'team/held', login).pushBlob(Buffer.from('held'));
    await nobodyWaits();
    assert.equal(await replicas.leader(), -1);
    await replicas.start(1 - leads);
    expect(await write, 201);
    // The second signal ends the delay, and the third one ends the transfers.
    leader.process.kill('SIGTERM');
    await eventually('it stops', () => /finishes running transfers/.test(leader.output()));
    assert.equal(leader.process.exitCode, null);
    leader.process.kill('SIGTERM');
    assert.equal(await end, 0);
    slow.stop();
    await replicas.start(leads);
  });

  test('and a follower that stops answers, but does not lead when the leader is killed', async () => {
    const { leads, leader, follower } = await roles();
    const pull = await servedName(leader);
    assert.equal((await pull(follower)).status, 200);
    const end = ended(follower);
    follower.process.kill('SIGTERM');
    const stopped = performance.now();
    await using list = await openReplicaList(replicas.database);
    await eventually('no leader chooses it', async () => (await list.list()).length === 1);
    await leader.kill();
    const write = new Repository(follower, 'team/stops', login).pushBlob(Buffer.from('stops'));
    await nobodyWaits();
    // It still hears that it may read: what it heard before is valid for two seconds.
    await sleep(2100 - (performance.now() - stopped));
    assert.equal((await pull(follower)).status, 200);
    await replicas.start(leads);
    await eventually('the other one leads', async () => (await replicas.leader()) === leads);
    expect(await write, 201);
    for (const _ of ['the delay', 'the transfers']) follower.process.kill('SIGTERM');
    assert.equal(await end, 0);
    assert.doesNotMatch(follower.output(), /"level":"(?:error|fatal)"/);
    await replicas.start(1 - leads);
  });

  /** A push of a blob in one request, of which half has passed the server: more than the buffers of connections hold. */
  const beginPush = async (at: Sluice, bytes: Buffer) => {
    const sent = request(`${at.url}/v2/team/slow/blobs/uploads/?digest=${digestOf(bytes)}`, {
      ...{ method: 'POST', agent: false },
      headers: { ...login, 'content-length': bytes.length },
    });
    const replied = once(sent, 'response') as Promise<[IncomingMessage]>;
    replied.catch(() => {});
    await new Promise(resolve => sent.write(bytes.subarray(0, bytes.length / 2), resolve));
    return {
      /** Sends the rest, and returns the response. */
      async finish() {
        sent.on('error', () => {});
        sent.end(bytes.subarray(bytes.length / 2));
        const [response] = await replied;
        response.resume();
        return response;
      },
    };
  };

  test('and what passes the follower slowly is whole, or fails so that its client repeats it', async () => {
    const { leads, leader, follower } = await roles();
    // The leader answers such a request itself: its bytes pass both.
    const relayed = { 'if-none-match': '"other"' };
    const transfers = await Promise.all([
      beginSlowly(follower),
      beginSlowly(follower, relayed),
      beginSlowly(leader),
    ]);
    const bytes = randomBytes(32 * 1024 ** 2);
    const pushing = await beginPush(follower, bytes);
    const end = ended(leader);
    leader.process.kill('SIGTERM');
    await eventually('the other one leads', async () => (await replicas.leader()) === 1 - leads);
    const reply = await pushing.finish();
    assert.equal(reply.statusCode, 503);
    assert.ok(reply.headers['retry-after']);
    expect(await new Repository(follower, 'team/slow', login).pushBlob(bytes), 201);
    for (const transfer of transfers) await transfer.finish();
    leader.process.kill('SIGTERM');
    assert.equal(await end, 0);
    await replicas.start(leads);

    // Now the other one leads, and is killed.
    const next = server(leads);
    const [own, through] = await Promise.all([beginSlowly(next), beginSlowly(next, relayed)]);
    const other = randomBytes(32 * 1024 ** 2);
    const failing = await beginPush(next, other);
    await follower.kill();
    await assert.rejects(through.finish(), { code: 'ECONNRESET' });
    assert.equal((await failing.finish()).statusCode, 503);
    await own.finish();
    await eventually('it leads', async () => (await replicas.leader()) === leads);
    expect(await new Repository(next, 'team/slow', login).pushBlob(other), 201);
    await (await beginSlowly(next, relayed)).finish();
    await replicas.start(1 - leads);
  });

  test('and the former leader may be killed meanwhile', async () => {
    const { leads, leader, follower } = await roles();
    const stopWrites = writeTo(follower, 'killed');
    leader.process.kill('SIGTERM');
    await eventually('it hands the lead over', () => /takes the lead/.test(leader.output()));
    await leader.kill();
    await eventually('the other one leads', async () => (await replicas.leader()) === 1 - leads);
    await stopWrites();
    await replicas.start(leads);
  });

  test('or taken from one that lost only its database, which hands requests on by then', async t => {
    const { leads, follower } = await roles();
    await using proxy = await startSilentProxy(replicas.database);
    await server(leads).kill();
    await eventually('the other one leads', async () => (await replicas.leader()) === 1 - leads);
    const cut = await replicas.start(leads, { SLUICE_DATABASE: proxy.url });
    await follower.kill();
    await eventually('the one to cut off leads', async () => (await replicas.leader()) === leads);
    const other = await replicas.start(1 - leads);
    const pull = await servedName(cut);
    assert.equal((await pull(cut)).status, 200);
    const ready = async (at: Sluice) => (await at.fetch('/readyz?for=traffic')).status;
    // The leader knows from its heartbeat that it has a successor.
    await sleep(4000);
    const push = (at: Sluice, name: string) =>
      new Repository(at, 'team/cut', login).pushBlob(Buffer.from(name));
    proxy.silence();
    const began = performance.now();
    const first = await push(cut, 'first');
    const noticed = performance.now() - began;
    assert.equal(first.status, 503);
    assert.ok(first.headers['retry-after']);
    const failing = performance.now();
    const [direct, relayed] = await Promise.all([push(cut, 'second'), push(other, 'third')]);
    const failed = performance.now() - failing;
    for (const { status, headers } of [direct, relayed]) {
      assert.equal(status, 503);
      assert.ok(headers['retry-after']);
    }
    assert.equal(await ready(cut), 503);
    // Nobody else leads yet: it answers what it has in memory, through the other one too.
    assert.equal(await ready(other), 200);
    for (const at of [cut, other]) assert.equal((await pull(at)).status, 200);
    // What PostgreSQL does with the connection of a silent host, 15 seconds later.
    const client = new pg.Client(replicas.database);
    await client.connect();
    const ending = performance.now();
    await client.query(`SELECT pg_terminate_backend(pid) FROM pg_locks
      WHERE locktype = 'advisory' AND classid = 1 AND granted`);
    await client.end();
    await eventually('it hands on', async () => (await push(cut, 'fourth')).status === 201);
    const handedOn = performance.now() - ending;
    assert.equal(await ready(cut), 200);
    for (const at of [cut, other]) assert.equal((await pull(at)).status, 200);
    t.diagnostic(
      `noticed, failed, handed on (ms): ${[noticed, failed, handedOn].map(Math.round).join(', ')}`,
    );
    // A change that waits has ten seconds.
    assert.ok(noticed < 9000, String(noticed));
    assert.ok(failed < 6000, String(failed));
    // The replica that replaced it is replaced in turn, by one whose address it has never heard.
    const port = await freePort();
    await using third = await startSluice({
      port,
      config: { accounts, buildkit: 'off' },
      env: {
        ...replicas.environment(1 - leads),
        SLUICE_DATA: replicas.keys.replace(/keys$/, 'data-third'),
        SLUICE_REPLICA_ADDRESS: `http://127.0.0.1:${port}`,
      },
    });
    const hasThird = async () => /^sluice_replica_leads 1$/m.test(await metricsOf(third));
    assert.equal(await hasThird(), false);
    await other.kill();
    await eventually('the third one leads', hasThird);
    const replaced = performance.now();
    assert.equal((await push(cut, 'fifth')).status, 201);
    assert.equal((await pull(cut)).status, 200);
    t.diagnostic(`handed on to the third (ms): ${Math.round(performance.now() - replaced)}`);
    // It starts again once it reaches the database.
    const end = ended(cut);
    proxy.resume();
    assert.equal(await end, 1);
    await third.kill();
    for (const position of [1 - leads, leads]) await replicas.start(position);
  });

  test('to the replica that the operator names, while transfers and writes go on', async t => {
    const { leads, leader, follower } = await roles();
    const run = async (...args: readonly string[]) => {
      const result = await sluiceCommand(['replicas', ...args], replicas.environment(leads));
      return `${result.code} ${result.stdout}${result.stderr}`.trimEnd();
    };
    const single = await sluiceCommand(['replicas', 'list']);
    assert.match(single.stderr, /only a site with PostgreSQL has replicas/);
    const listed = JSON.parse((await run('list', '--json')).slice(1));
    assert.deepEqual(
      Object.fromEntries(
        listed.replicas.map((one: { address: string; role: string }) => [one.address, one.role]),
      ),
      { [leader.url]: 'leader', [follower.url]: 'follower' },
    );
    const slow = await beginSlowly(leader);
    const writes = [writeTo(leader, 'named-former', follower), writeTo(follower, 'named-next')];
    const end = ended(leader);
    assert.equal(await run('lead', leader.url), `0 ${leader.url} leads already`);
    assert.match(await run('lead', 'http://192.0.2.1:9090'), /^1 No replica has the address/);
    assert.equal(await run('lead', follower.url), `0 ${follower.url} leads`);
    assert.equal(await replicas.leader(), 1 - leads);
    for (const at of [leader, follower]) {
      await new Repository(at, 'team/named', login).pushImage('x', []);
    }
    await endWrites(t, writes);
    // One of them may have waited for the database or the object store, for which other work has no processor either.
    const median = waits.toSorted((a, b) => a - b)[Math.floor(waits.length / 2)] ?? 0;
    assert.ok(median < 1000, `writes waited for ${waits.join(', ')} ms`);
    await slow.finish();
    // A signal ends the delay.
    leader.process.kill('SIGTERM');
    assert.equal(await end, 1);
    await replicas.start(leads);
  });

  test('but not to a replica with a wrong clock: the last one serves until that is right', async () => {
    const { leads, leader, follower } = await roles();
    await follower.kill();
    await using directory = await makeTempDir('clock');
    const clock = shiftedClock(directory);
    clock.shift(40 * 24);
    const late = await replicas.start(1 - leads, clock.env);
    const readiness = await late.fetch('/readyz');
    assert.equal(readiness.status, 503);
    assert.match(await readiness.text(), /clock of this machine is 57600 minutes ahead/);
    assert.equal((await late.fetch('/readyz?for=traffic')).status, 200);
    const end = ended(leader);
    leader.process.kill('SIGTERM');
    await eventually('it stops', async () => (await leader.fetch('/readyz')).status === 503);
    expect(await new Repository(leader, 'team/alone', login).pushBlob(Buffer.from('alone')), 201);
    clock.shift(0);
    await eventually('the other one leads', async () => (await replicas.leader()) === 1 - leads);
    // The next one may lead before this one has said so.
    await eventually('it says so', () => leader.output().includes('takes the lead'));
    expect(await new Repository(leader, 'team/alone', login).pushBlob(Buffer.from('late')), 201);
    leader.process.kill('SIGTERM');
    assert.equal(await end, 0);
    assert.doesNotMatch(leader.output(), /"level":"(?:error|fatal)"/);
  });
});
