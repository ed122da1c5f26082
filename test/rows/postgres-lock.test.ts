/** Which server may change the rows in PostgreSQL. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { after, suite, test } from 'node:test';
import pg from 'pg';
import { Fault } from '../../src/foundation/fault.ts';
import { awaitLead } from '../../src/storage/rows/postgres/lead-wait.ts';
import {
  claimLock,
  lockClient,
  openLockSession,
  replicaName,
} from '../../src/storage/rows/postgres/lock-session.ts';
import { openPostgres } from '../../src/storage/rows/postgres/postgres-database.ts';
import { migratePostgres } from '../../src/storage/rows/postgres/postgres-migrations.ts';
import { postgresMigrations } from '../../src/storage/rows/postgres/postgres-schema.ts';
import { takeServerLock } from '../../src/storage/rows/postgres/server-lock.ts';
import { eventually } from '../world/eventually.ts';
import { startPostgres } from '../world/postgres.ts';
import { startSilentProxy } from '../world/silent-proxy.ts';

const postgres = await startPostgres();
after(() => postgres[Symbol.asyncDispose]());

const change = 'UPDATE sums SET value = 1 WHERE name = ?';
const changed = "SELECT value FROM sums WHERE name = 'users'";
// The next version has one more step.
const steps = [...postgresMigrations, 'ALTER TABLE access_tokens ADD COLUMN colour TEXT'];
const taken = /Another server has taken the database/;
const otherLeads = new Fault('unavailable', 'Another server leads');

async function connected(url: string) {
  const client = new pg.Client(url);
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

suite('the lock of the server', () => {
  const lockOf = `FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  const opened = async () => {
    const url = await postgres.createDatabase();
    const news: string[] = [];
    const database = await openPostgres(url, { isServer: true, onLock: one => news.push(one) });
    const client = await connected(url);
    const call = database.sql(change).run('users');
    return {
      ...{
        url,
        news,
        client,
        connections: database.connections,
        write: () => database.write(() => call),
      },
      read: () => database.read(database.sql('SELECT 1 AS one').get()),
      value: async () => Number((await client.query(changed)).rows[0]?.value),
      async [Symbol.asyncDispose]() {
        await client.end();
        await database.end();
      },
    };
  };

  test('is taken again when its connection ends', async () => {
    await using server = await opened();
    await server.client.query(`SELECT pg_terminate_backend(pid) ${lockOf}`);
    await eventually('the lock is held again', async () => server.news.includes('held'));
    assert.deepEqual(server.news, ['lost', 'held']);
    await server.write();
    assert.equal((await server.client.query(`SELECT 1 ${lockOf}`)).rowCount, 1);
  });

  test('is not taken at a standby, which accepts no changes', async () => {
    await using own = await startPostgres();
    const url = await own.createDatabase();
    const news: string[] = [];
    const database = await openPostgres(url, { isServer: true, onLock: one => news.push(one) });
    const write = () => database.write(() => database.sql(change).run('users'));
    await write();
    await own.stop();
    await own.start('standby');
    // Its lock would be free.
    await assert.rejects(
      openLockSession(() => lockClient(url, 'other')),
      { code: '25006' },
    );
    await assert.rejects(openPostgres(url, { isServer: true }), /accepts no changes/);
    await database.read(database.sql('SELECT 1 AS one').get());
    await assert.rejects(write(), ({ status }: Fault) => status === 503);
    assert.deepEqual(news, ['lost']);
    await own.stop();
    await own.start();
    await eventually('the lock is held again', () => news.includes('held'));
    await write();
    await database.end();
  });

  test('that another server took ends all changes', async () => {
    await using server = await opened();
    const { rows } = await server.client.query(`SELECT pid ${lockOf}`);
    const killer = `SELECT pg_terminate_backend(${rows[0].pid}), pg_advisory_lock(7583190234)`;
    await server.client.query(killer);
    await eventually('the loss is known', async () => server.news.includes('taken'));
    assert.deepEqual(server.news, ['lost', 'taken']);
    await assert.rejects(server.write(), taken);
    await server.read();
  });

  test('that another server had meanwhile is not taken again', async () => {
    const url = await postgres.createDatabase();
    await using proxy = await startSilentProxy(url);
    const news: string[] = [];
    const lock = await takeServerLock(() => lockClient(proxy.url, 'former'), {
      ...{ patienceMs: 0, onNews: one => news.push(one) },
    });
    proxy.refuse();
    await eventually('the loss is known', () => news.includes('lost'));
    const next = await takeServerLock(() => lockClient(url, 'next'), { patienceMs: 10_000 });
    await next.release();
    proxy.resume();
    await eventually('the former one has asked again', () => news.length > 1);
    assert.deepEqual(news, ['lost', 'taken']);
    assert.throws(() => lock.require(), taken);
    await lock.release();
  });

  test('is lost when its connection falls silent', async () => {
    await using proxy = await startSilentProxy(await postgres.createDatabase());
    const news: string[] = [];
    const lock = await takeServerLock(() => lockClient(proxy.url, 'silent'), {
      ...{ patienceMs: 0, onNews: one => news.push(one) },
      heartbeat: { pauseMs: 10, doubtMs: 50, responseMs: 100 },
    });
    lock.require();
    proxy.silence();
    await eventually('the loss is known', () => news.includes('lost'));
    assert.deepEqual(news, ['silent', 'lost']);
    assert.throws(() => lock.require(), /database does not answer this server/);
    await lock.release();
  });

  test('is in doubt while its connection is slow, and what waits for the database ends', async () => {
    const url = await postgres.createDatabase();
    await using proxy = await startSilentProxy(url);
    const news: string[] = [];
    const lock = await takeServerLock(() => lockClient(proxy.url, replicaName), {
      ...{ patienceMs: 0, onNews: one => news.push(one) },
      heartbeat: { pauseMs: 10, doubtMs: 2000, responseMs: 60_000 },
    });
    const database = await openPostgres(proxy.url, { isServer: true, lock });
    await using _ended = { [Symbol.asyncDispose]: () => database.end() };
    const read = () => database.read(database.sql('SELECT 1 AS one').get());
    const write = () => database.write(() => database.sql(change).run('users'));
    // Each has its connection: a new one would be waited for.
    await Promise.all([read(), write()]);
    await using other = await connected(url);
    await other.query(`SET application_name = '${replicaName}'`);
    await eventually('the other replica is known', async () => {
      await other.query('SELECT 1');
      return database.hasSuccessor();
    });
    database.requireChanges();
    proxy.hold();
    const began = performance.now();
    const late = Promise.allSettled([read(), write()]);
    await eventually('the doubt is known', () => news.includes('silent'));
    for (const { status } of await late) assert.equal(status, 'rejected');
    await assert.rejects(read(), /database does not answer this server/);
    await assert.rejects(write(), ({ retryAfterSeconds }: Fault) => retryAfterSeconds === 5);
    assert.throws(() => database.requireChanges(), /database does not answer this server/);
    // The driver would wait for 35 seconds.
    assert.ok(performance.now() - began < 10_000);
    assert.equal(database.isCurrent(), false);
    assert.equal(database.hasSuccessor(), true);
    proxy.release();
    await eventually('the lock is held', () => news.includes('held'));
    assert.deepEqual(news, ['silent', 'held']);
    await write();
  });

  test('outlives the time limits of the role', async () => {
    const url = await postgres.createDatabase();
    await using administrator = await connected(url);
    for (const setting of [
      "idle_session_timeout = '1min'",
      "lock_timeout = '1ms'",
      "default_transaction_isolation = 'serializable'",
    ]) {
      await administrator.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET ${setting}`);
    }
    const client = lockClient(url, 'patient');
    const lock = await takeServerLock(() => client, { patienceMs: 0 });
    const { rows } = await client.query(
      `SELECT current_setting('idle_session_timeout') AS idle, current_setting('lock_timeout') AS lock,
         current_setting('transaction_isolation') AS isolation, current_setting('tcp_user_timeout') AS silence`,
    );
    assert.deepEqual(rows, [
      { idle: '0', lock: '0', isolation: 'read committed', silence: '15000' },
    ]);
    await lock.release();
  });

  test('fences the changes of a server that does not know that it lost the lock', async () => {
    await using server = await opened();
    await claimLock(server.client, randomUUID());
    await eventually('its connections have ended', () => server.connections().idle === 0);
    await assert.rejects(server.write(), taken);
    assert.deepEqual([server.news, await server.value()], [['taken'], 0]);
    await server.read();
    // Commands work beside a server.
    const command = await openPostgres(server.url);
    await command.write(() => command.sql(change).run('users'));
    assert.equal(await server.value(), 1);
    await command.end();
  });

  test('fences a change that began before the lock was taken', async () => {
    await using server = await opened();
    await server.client.query('BEGIN; LOCK TABLE lock_holder IN EXCLUSIVE MODE');
    const late = assert.rejects(server.write(), taken);
    await using observer = await connected(server.url);
    const waiting = `SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'lock_holder'::regclass`;
    await eventually('it waits', async () => (await observer.query(waiting)).rowCount === 1);
    await server.client.query("UPDATE lock_holder SET server = 'another'; COMMIT");
    await late;
    assert.equal(await server.value(), 0);
  });

  test('is required again after the wait for a connection', async () => {
    const url = await postgres.createDatabase();
    let isLost = false;
    const database = await openPostgres(url, {
      isServer: true,
      lock: {
        require() {
          if (isLost) throw otherLeads;
        },
        ...{ isHeld: true, isTaken: false, isSilent: false, hadSuccessor: false },
        ...{ fence: 'SELECT 1', noteTaken: () => otherLeads },
        onSilence() {},
        announce: async () => undefined,
        hasSuccessor: async () => false,
        async handOver() {},
        async release() {},
      },
    });
    await using gate = await connected(url);
    await gate.query('SELECT pg_advisory_lock(1)');
    const slow = database.sql('SELECT pg_advisory_xact_lock_shared(1)');
    const busy = Array.from({ length: 10 }, () => database.write(() => slow.get()));
    const late = assert.rejects(
      database.write(() => database.sql(change).run('users')),
      otherLeads,
    );
    await eventually('it waits', () => database.connections().waiting > 0);
    isLost = true;
    await gate.query('SELECT pg_advisory_unlock(1)');
    await late;
    await Promise.allSettled(busy);
    await database.end();
    assert.equal(Number((await gate.query(changed)).rows[0]?.value), 0);
  });

  test('is refused behind a pooler', async () => {
    const url = await postgres.createDatabase();
    const pooler = await startPooler(url);
    try {
      await assert.rejects(
        openPostgres(pooler.url, { isServer: true }),
        /names a connection pooler/,
      );
      const signal = new AbortController().signal;
      const unused = {
        onLeader() {},
        onNews() {},
        onHandOver() {},
        onWrongClock() {},
        onOutage() {},
      };
      await assert.rejects(
        awaitLead(pooler.url, { ...unused, signal }),
        /names a connection pooler/,
      );
      await (await openPostgres(pooler.url)).end();
    } finally {
      pooler.server.close();
    }
  });

  test('keeps commands from changing the schema of a server', async () => {
    const url = await postgres.createDatabase();
    const server = await openPostgres(url, { isServer: true });
    await using client = await connected(url);
    const stateOf = async () =>
      (await client.query('SELECT version, server FROM sluice_schema, lock_holder')).rows[0];
    const before = await stateOf();
    await assert.rejects(
      migratePostgres(client, { patienceMs: 0, steps }),
      /A server of an older version uses the database/,
    );
    await server.end();
    await migratePostgres(client, { steps });
    const { version, server: holder } = await stateOf();
    assert.equal(Number(version), steps.length);
    assert.notEqual(holder, before.server, 'the former server does not go on');
  });

  test('lets a change of the schema take longer than a statement', async () => {
    const url = await postgres.createDatabase();
    await (await openPostgres(url)).end();
    await using client = await connected(url);
    await using watcher = await connected(url);
    await client.query('BEGIN; LOCK TABLE access_tokens IN ACCESS SHARE MODE');
    const statementMs = 2000;
    const limited = new pg.Client({
      connectionString: url,
      ...{ statement_timeout: statementMs, query_timeout: statementMs },
    });
    await limited.connect();
    const migration = migratePostgres(limited, { steps });
    await eventually('the change has waited for longer', async () => {
      const { rowCount } = await watcher.query(
        `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
         AND clock_timestamp() - query_start > $1 * interval '1 millisecond'`,
        [2 * statementMs],
      );
      return rowCount === 1;
    });
    await client.query('COMMIT');
    await migration;
    await limited.end();
  });
});

suite('the wait for the lead', () => {
  test('lasts while the clock is wrong', async () => {
    const url = await postgres.createDatabase();
    const closing = new AbortController();
    const differences: number[] = [];
    let days = 40;
    let hasLock = false;
    const lock = awaitLead(url, {
      ...{ onLeader() {}, onNews() {}, onHandOver() {}, onOutage() {} },
      onWrongClock: aheadMs => differences.push(Math.round(aheadMs / 86_400_000)),
      now: () => Date.now() + days * 86_400_000,
      signal: closing.signal,
    }).then(held => {
      hasLock = true;
      return held;
    });
    await eventually('the difference is known', () => differences.length === 1);
    assert.equal(hasLock, false);
    await using other = await connected(url);
    const { rows } = await other.query('SELECT pg_try_advisory_lock(7583190234) AS free');
    assert.equal(rows[0]?.free, true, 'another replica can lead');
    await other.query('SELECT pg_advisory_unlock(7583190234)');
    days = 0;
    await (await lock).release();
    assert.deepEqual(differences, [40, 0]);
  });

  test('allows reads only while the clock is close to that of the database', async () => {
    const url = await postgres.createDatabase();
    await using leader = await connected(url);
    await leader.query('SELECT pg_advisory_lock(7583190234)');
    await leader.query('CREATE TABLE sluice_schema (version INTEGER)');
    await leader.query('INSERT INTO sluice_schema VALUES ($1)', [postgresMigrations.length]);
    const closing = new AbortController();
    const heard: boolean[] = [];
    let minutes = 6;
    const lock = awaitLead(url, {
      ...{ onLeader() {}, onNews() {}, onHandOver() {}, onOutage() {}, onWrongClock() {} },
      onReadable: isReadable => heard.push(isReadable),
      now: () => Date.now() + minutes * 60_000,
      signal: closing.signal,
    });
    lock.catch(() => {});
    await eventually('it may not read', () => heard.at(-1) === false);
    minutes = 0;
    await eventually('it may read', () => heard.at(-1) === true);
    minutes = -6;
    await eventually('it may not read any more', () => heard.at(-1) === false);
    closing.abort();
  });

  const wait = (url: string) => {
    const outages: (string | undefined)[] = [];
    const closing = new AbortController();
    const lock = awaitLead(url, {
      onLeader() {},
      onNews() {},
      onHandOver() {},
      onWrongClock() {},
      onOutage: reason => outages.push(reason),
      signal: closing.signal,
    });
    lock.catch(() => {});
    return { outages, lock, stop: () => closing.abort() };
  };

  test('ends with a wrong address or login, and names the setting', async () => {
    const url = await postgres.createDatabase();
    for (const [from, to, message] of [
      ['sluice@', 'nobody@', /rejects the login in SLUICE_DATABASE \(28000\)/],
      [/\w+$/, 'absent', /does not exist \(3D000\)/],
    ] as const) {
      await assert.rejects(wait(url.replace(from, to)).lock, message);
    }
    await assert.rejects(wait('postgres://a:b@[/name').lock, /is not a URL/);
  });

  test('goes on through outages, and reports each once', async () => {
    const url = await postgres.createDatabase();
    const leader = await takeServerLock(() => lockClient(url, 'leader'), { patienceMs: 0 });
    await using proxy = await startSilentProxy(url);
    proxy.refuse();
    const { outages, lock, stop } = wait(proxy.url);
    const hasEnded = () => outages.at(-1) === undefined;
    try {
      for (const round of [1, 2]) {
        await eventually('the outage is known', () => outages.length > 0 && !hasEnded());
        proxy.resume();
        await eventually('its end is known', hasEnded);
        assert.equal(outages.filter(reason => reason === undefined).length, round);
        proxy.refuse();
      }
      assert.match(String(outages[0]), /The database does not answer/);
      const first = outages.slice(0, outages.indexOf(undefined));
      assert.equal(new Set(first).size, first.length, 'each reason is reported once');
      await eventually('the outage is known', () => !hasEnded());
      proxy.resume();
      await leader.release();
      await (await lock).release();
    } finally {
      stop();
    }
  });
});

/** A proxy that sends another number of the process, as PgBouncer does. */
async function startPooler(
  url: string,
): Promise<{ readonly url: string; readonly server: Server }> {
  const address = new URL(url);
  const target = { host: address.hostname, port: Number(address.port) };
  // The message BackendKeyData: its type, and its length.
  const keyData = Buffer.from([0x4b, 0, 0, 0, 12]);
  const server = createServer(client => {
    const upstream = connect(target);
    client.pipe(upstream);
    upstream.on('data', chunk => {
      const at = chunk.indexOf(keyData);
      if (at >= 0) chunk.writeUInt8(chunk.readUInt8(at + 5) ^ 1, at + 5);
      client.write(chunk);
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on('error', () => {}).on('close', () => other.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  address.port = String((server.address() as AddressInfo).port);
  return { url: address.href, server };
}
