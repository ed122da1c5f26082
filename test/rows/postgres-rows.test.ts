import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Fault } from '../../src/foundation/fault.ts';
import {
  faultOf,
  isBroken,
  isConflict,
} from '../../src/storage/rows/postgres/postgres-connection.ts';
import { openPostgres } from '../../src/storage/rows/postgres/postgres-database.ts';
import { openPostgresRows } from '../../src/storage/rows/rows.ts';
import { makeCertificates } from '../world/certificates.ts';
import { eventually } from '../world/eventually.ts';
import { startPostgres } from '../world/postgres.ts';
import { startSilentProxy } from '../world/silent-proxy.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { testRows } from './conformance.ts';

const postgres = await startPostgres();
after(() => postgres[Symbol.asyncDispose]());

testRows('PostgreSQL', async () => openPostgresRows(await postgres.createDatabase()));

const asAdministrator = async (url: string, ...statements: readonly string[]) => {
  const address = new URL(url);
  address.username = 'sluice';
  const client = new pg.Client(address.href);
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
};
const patient = { patienceMs: Number.POSITIVE_INFINITY };
const is503 = (error: Fault) => error.status === 503;

suite('PostgreSQL and the network', () => {
  test('text with U+0000 is stored with U+FFFD, and JSON with it is read', async () => {
    const rows = await openPostgresRows(await postgres.createDatabase());
    try {
      const { builds, requests, sealed } = rows;
      const plan = JSON.stringify({ origin: { kind: 'a\0b' }, 'k\0': '\ud800', path: '\\u0000' });
      const { row } = await builds.insert(
        { key: 'k', target: 't', plan, owner: 'o', isTrusted: true, grant: null },
        undefined,
        1,
      );
      await builds.finish(row.id, { succeeded: false, reason: 'a\0b' }, 2, 3);
      const found = await builds.find(row.id);
      assert.deepEqual([found?.reason, found?.plan], ['a\ufffdb', plan]);
      const listed = await rows.buildList.list({
        ...{ owner: undefined, succeeded: undefined },
        ...{ before: Number.MAX_SAFE_INTEGER, limit: 10 },
      });
      assert.match(JSON.stringify(listed), /a\ufffdb/);
      const body = JSON.stringify({ grant: 'old\0\0', 'k\0': ['\udc00', '\\u0000'] });
      const needs = Buffer.alloc(0);
      await requests.insert(Buffer.from('one'), { createdAt: 1, expiresAt: 10, body, needs });
      assert.equal((await sealed.requestsOfOthers('new', 5)).count, 1);
      assert.equal((await sealed.requestsOfOthers('old\ufffd\ufffd', 5)).count, 0);
    } finally {
      await rows.end();
    }
  });

  test('a connection that the network loses silently is an outage', async () => {
    const url = await postgres.createDatabase();
    await using proxy = await startSilentProxy(url);
    const database = await openPostgres(proxy.url, { statementMs: 3000 });
    const one = database.sql('SELECT 1 AS one');
    const count = database.sql('UPDATE sums SET value = 1 WHERE name = ?');
    try {
      await database.read(one.get());
      proxy.silence();
      await assert.rejects(database.read(one.get()), is503);
      const change = database.write(() => count.changes('users'), patient);
      await sleep(100);
      proxy.resume();
      assert.equal(await change, 1);
    } finally {
      await database.end();
    }
  });

  test('patient changes end with the database, and settling does not wait for them', async () => {
    const url = await postgres.createDatabase();
    await using proxy = await startSilentProxy(url);
    const database = await openPostgres(proxy.url);
    const count = database.sql('UPDATE sums SET value = 1 WHERE name = ?');
    const holder = new pg.Client(url);
    await holder.connect();
    await holder.query('SELECT pg_advisory_lock(1)');
    const slow = database.sql('SELECT pg_advisory_xact_lock_shared(1)');
    let isOver = false;
    const waiting = database
      .write(() => slow.get())
      .finally(() => {
        isOver = true;
      });
    await database.settle();
    assert.equal(isOver, false);
    await holder.end();
    await waiting;
    proxy.refuse();
    const change = database.write(() => count.changes('users'), patient);
    const ended = assert.rejects(change, is503);
    await sleep(200);
    await database.end();
    await ended;
  });

  test('errors of an outage are known', () => {
    const errors = [
      new Error('Client has encountered a connection error and is not queryable'),
      new Error('Client was closed and is not queryable'),
      ...['EPIPE', '25006', '25P03', '25P04', '57P01', '57P03'].map(code =>
        Object.assign(new Error('why'), { code }),
      ),
    ];
    for (const error of errors) {
      assert.ok(isBroken(error), String(error));
      assert.ok(is503(faultOf(error) as Fault), String(error));
    }
    const lateLock = Object.assign(new Error('why'), { code: '55P03' });
    assert.deepEqual([isConflict(lateLock), isBroken(lateLock)], [true, false]);
    assert.ok(is503(faultOf(Object.assign(new Error('why'), { code: 'EAI_AGAIN' })) as Fault));
    for (const code of [
      '28P01',
      '28000',
      '3D000',
      'CERT_HAS_EXPIRED',
      'ERR_SSL_WRONG_VERSION_NUMBER',
    ]) {
      assert.ok(is503(faultOf(Object.assign(new Error('why'), { code })) as Fault), code);
    }
  });

  test('wrong settings are named at the start', async () => {
    const url = new URL(await postgres.createDatabase());
    const named = new URL(url);
    named.pathname = '/absent';
    await assert.rejects(openPostgres(named.href), /does not exist \(3D000\): create it/);
    const user = new URL(url);
    user.username = 'nobody';
    await assert.rejects(openPostgres(user.href), /rejects the login .* \(28000\)/);
    url.search = 'sslmode=verify-full&sslrootcert=/absent/root.crt';
    await assert.rejects(openPostgres(url.href), /Cannot read a certificate .*ENOENT/);
    await assert.rejects(openPostgres('postgres://a:b@[/name'), /is not a URL: write postgres:/);
    await asAdministrator(user.href, 'CREATE ROLE guest LOGIN');
    user.username = 'guest';
    await assert.rejects(openPostgres(user.href), /lacks a right \(42501: permission denied/);
  });

  test('a database without TLS, or with a certificate of an unknown authority, is named at the start', async () => {
    const url = new URL(await postgres.createDatabase());
    url.search = 'sslmode=verify-full';
    await assert.rejects(openPostgres(url.href), /has no TLS, which its sslmode asks for: set ssl/);
    await using directory = await makeTempDir('certificates');
    const certificates = await makeCertificates(directory.path);
    await postgres.useCertificate(certificates);
    const refusal = () =>
      openPostgres(url.href).then(
        () => assert.fail('the authority is unknown'),
        ({ message }) => message as string,
      );
    await eventually('it has read its settings', async () => !/no TLS/.test(await refusal()));
    assert.match(await refusal(), /does not trust \(UNABLE_TO_\w+\): name its authority/);
    url.searchParams.set('sslrootcert', certificates.authority);
    const database = await openPostgres(url.href);
    await database.end();
  });

  test('the address does not change the time limits and the name of connections', async () => {
    const url = `${await postgres.createDatabase()}?application_name=other&statement_timeout=1&query_timeout=1`;
    const database = await openPostgres(url, { isServer: true });
    const shown = `SELECT current_setting('application_name') AS name, current_setting('statement_timeout') AS ms`;
    assert.deepEqual(await database.read(database.sql(shown).get()), {
      ...{ name: 'sluice server', ms: '30s' },
    });
    await database.end();
  });

  test('changes wait for the few connections that the role may have', async () => {
    const url = new URL(await postgres.createDatabase());
    const name = url.pathname.slice(1);
    await asAdministrator(
      url.href,
      'CREATE ROLE few LOGIN CONNECTION LIMIT 2',
      `ALTER DATABASE ${name} OWNER TO few`,
    );
    url.username = 'few';
    const database = await openPostgres(url.href);
    const slow = database.sql('SELECT pg_sleep(0.02)');
    await Promise.all(Array.from({ length: 8 }, () => database.write(() => slow.get())));
    await database.end();
  });

  test('a long change succeeds beside many short ones of the same row', async () => {
    const database = await openPostgres(await postgres.createDatabase());
    const add = database.sql("UPDATE sums SET value = value + 1 WHERE name = 'users'");
    const value = database.sql<{ value: number }>("SELECT value FROM sums WHERE name = 'users'");
    const pause = database.sql('SELECT pg_sleep(0.1)');
    let isDone = false;
    let sum = 1;
    const short = async () => {
      while (!isDone) {
        await database.write(() => add.run());
        sum += 1;
      }
    };
    const shorts = [short(), short()];
    await database
      .write(function* () {
        yield* value.get();
        yield* pause.get();
        return yield* add.run();
      })
      .finally(() => {
        isDone = true;
      });
    await Promise.all(shorts);
    assert.equal((await database.read(value.get()))?.value, sum);
    await database.end();
  });

  test('changes of a table that an operator has locked wait for their patience, and no other does', async () => {
    const url = await postgres.createDatabase();
    const database = await openPostgres(url);
    const locked = database.sql('UPDATE usage SET count = 1 WHERE day = ?');
    const other = database.sql("UPDATE sums SET value = 1 WHERE name = 'users'");
    const operator = new pg.Client(url);
    await operator.connect();
    await operator.query('BEGIN; LOCK TABLE usage IN ACCESS EXCLUSIVE MODE');
    const waiting = database.write(() => locked.run('2026-01-01'), { patienceMs: 1000 });
    await database.write(() => other.run());
    // PostgreSQL would end the statement after 30 s, and the wait with a fault of the database.
    await assert.rejects(waiting, /Too many changes of the same rows/);
    const patientOne = database.write(() => locked.run('2026-01-01'), patient);
    // Longer than the conflicts after which a change is tried alone.
    const late: number[] = [];
    for (const end = performance.now() + 20_000; performance.now() < end; await sleep(20)) {
      const began = performance.now();
      await database.write(() => other.run());
      const tookMs = performance.now() - began;
      if (tookMs >= 1900) late.push(tookMs);
    }
    // One may be a machine that stood still. A change that is tried alone makes several wait.
    assert.ok(late.length <= 1, `${late} ms`);
    await operator.query('ROLLBACK');
    await patientOne;
    await operator.end();
    await database.end();
  });

  test('a change that conflicts is not tried again for a caller who has left', async () => {
    const database = await openPostgres(await postgres.createDatabase());
    const value = database.sql<{ value: number }>("SELECT value FROM sums WHERE name = 'users'");
    const set = database.sql("UPDATE sums SET value = 7 WHERE name = 'users'");
    const caller = new AbortController();
    let attempts = 0;
    const left = database.write(
      function* () {
        attempts += 1;
        yield* set.run();
        caller.abort();
        throw Object.assign(new Error('could not serialize access'), { code: '40001' });
      },
      { signal: caller.signal },
    );
    await assert.rejects(left, { name: 'AbortError' });
    assert.equal(attempts, 1);
    const { idle } = database.connections();
    await assert.rejects(database.write(() => set.run(), { signal: caller.signal }));
    assert.equal(database.connections().idle, idle, 'nothing was sent on it');
    assert.notEqual((await database.read(value.get()))?.value, 7);
    await database.end();
  });

  test('a read that conflicts is repeated', async () => {
    const url = await postgres.createDatabase();
    await asAdministrator(
      url,
      'CREATE SEQUENCE reads',
      `CREATE FUNCTION second_time() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN
         IF nextval('reads') = 1 THEN RAISE EXCEPTION USING ERRCODE = '40001'; END IF;
         RETURN 2;
       END $$`,
    );
    const database = await openPostgres(url);
    const twice = database.sql<{ read: number }>('SELECT second_time() AS read');
    assert.equal((await database.read(twice.get()))?.read, 2);
    await database.end();
  });
});
