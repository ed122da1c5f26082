/** The list of replicas in PostgreSQL, and which one leads next. */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import pg from 'pg';
import { awaitLead } from '../../src/storage/rows/postgres/lead-wait.ts';
import { openPostgres } from '../../src/storage/rows/postgres/postgres-database.ts';
import { openReplicaList } from '../../src/storage/rows/postgres/replica-list.ts';
import type { ServerLock } from '../../src/storage/rows/postgres/server-lock.ts';
import { eventually } from '../world/eventually.ts';
import { startPostgres } from '../world/postgres.ts';

const postgres = await startPostgres();
after(() => postgres[Symbol.asyncDispose]());

async function site() {
  const url = await postgres.createDatabase();
  // It creates the tables, as the first leader does.
  await (await openPostgres(url)).end();
  const list = await openReplicaList(url);
  const client = new pg.Client(url);
  await client.connect();
  const stops: (() => Promise<void>)[] = [];
  const start = (name: string) => {
    const closing = new AbortController();
    const wishes: string[] = [];
    let held: ServerLock | undefined;
    const lock = awaitLead(url, {
      ...{ onLeader() {}, onNews() {}, onHandOver() {}, onOutage() {}, onWrongClock() {} },
      self: { address: `http://${name}:9090/`, version: '1.2.3' },
      onReplaced: () => wishes.push(name),
      signal: closing.signal,
    }).then(
      got => {
        held = got;
      },
      () => {},
    );
    const stop = async () => {
      closing.abort();
      await lock;
      await held?.release();
    };
    stops.push(stop);
    const listed = async () =>
      (await list.list()).find(({ address }) => address === `http://${name}:9090/`);
    return {
      ...{ wishes, stop },
      lock: () => held,
      async pid() {
        await eventually(`${name} is listed`, async () => (await listed())?.role !== undefined);
        return (await listed())?.pid ?? 0;
      },
      async leads() {
        await lock;
        return held;
      },
    };
  };
  return {
    ...{ url, list, client, start },
    /** Starts replicas, of which the first one leads. */
    async startAll<const T extends readonly string[]>(...names: T) {
      const started = [];
      for (const [at, name] of names.entries()) {
        const one = start(name);
        if (at === 0) await one.leads();
        await one.pid();
        started.push(one);
      }
      return started as { [K in keyof T]: ReturnType<typeof start> };
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(stops.map(stop => stop()));
      await list[Symbol.asyncDispose]();
      await client.end();
    },
  };
}

suite('the list of replicas', () => {
  test('has those that are connected, and the last 32 sessions, which a new leader tells', async () => {
    await using at = await site();
    const gone = `INSERT INTO replicas SELECT n, clock_timestamp(), 'http://gone', '0', clock_timestamp()
      FROM generate_series(1000000, 1000100) n`;
    await at.client.query(gone);
    const [first, second] = await at.startAll('one', 'two', 'three');
    const listed = await at.list.list();
    assert.deepEqual(
      listed.map(({ address, version, role }) => [address, version, role]),
      [
        ['http://one:9090/', '1.2.3', 'leader'],
        ['http://three:9090/', '1.2.3', 'follower'],
        ['http://two:9090/', '1.2.3', 'follower'],
      ],
    );
    for (const { startedAt, seenAt } of listed) {
      assert.ok(startedAt && startedAt < seenAt);
      assert.ok(Date.now() - seenAt.getTime() < 60_000);
    }
    await second.stop();
    await eventually('its session ends', async () => (await at.list.list()).length === 2);
    const kept = async () => (await at.client.query('SELECT 1 FROM replicas')).rowCount;
    assert.ok(((await kept()) ?? 100) <= 33);
    const unheard = async () => (await first.lock()?.announce(self))?.unheard ?? [];
    const self = { address: 'http://one:9090/', keys: 'k' };
    await eventually('the one that ended is unheard', async () =>
      (await unheard()).includes('http://two:9090/'),
    );
    assert.ok(!(await unheard()).includes('http://three:9090/'));
    await at.start('two').pid();
    assert.ok(((await kept()) ?? 100) <= 33);
    assert.ok(!(await unheard()).includes('http://two:9090/'));
  });

  test('is empty for a database of an older version', async () => {
    const url = await postgres.createDatabase();
    await using list = await openReplicaList(url);
    assert.deepEqual(await list.list(), []);
  });
});

suite('the next leader', () => {
  test('is the one that the operator chose, and a second choice waits', async () => {
    await using at = await site();
    const [first, second, third] = await at.startAll('one', 'two', 'three');
    const chosen = await Promise.all([
      at.list.choose(await third.pid()),
      at.list.choose(await third.pid()),
    ]);
    assert.deepEqual(chosen, [true, true]);
    assert.equal(await at.list.choose(await second.pid()), false);
    await eventually('the leader knows', () => first.wishes.length > 0);
    await first.lock()?.handOver();
    const lock = await third.leads();
    assert.ok(lock?.isHeld);
    assert.equal(second.lock(), undefined);
    await lock.announce({ address: 'http://three:9090/', keys: 'k' });
    assert.equal(await at.list.leader(), 'http://three:9090/');
    // The choice has ended.
    assert.ok(await at.list.choose(await second.pid()));
    await eventually('the next leader knows', () => third.wishes.length > 0);
  });

  test('is another one when the chosen one ends', async () => {
    await using at = await site();
    const [first, second, third] = await at.startAll('one', 'two', 'three');
    const pid = await third.pid();
    assert.ok(await at.list.choose(pid));
    await third.stop();
    await first.lock()?.handOver();
    assert.ok(await second.leads());
    assert.equal(await at.list.choose(pid), false);
  });

  test('is another one when the wait of the first one ends at the moment when it gets the lock', async () => {
    await using at = await site();
    const closing = new AbortController();
    const stopped = awaitLead(at.url, {
      ...{ onLeader() {}, onNews() {}, onHandOver() {}, onOutage() {}, onWrongClock() {} },
      // The clock is read before the attempt.
      now() {
        closing.abort(new Error('it stops'));
        return Date.now();
      },
      signal: closing.signal,
    }).then(lock => lock.release());
    await assert.rejects(stopped, /it stops/);
    assert.ok((await at.start('two').leads())?.isHeld);
  });

  test('is the one that started last when a leader stops', async () => {
    await using at = await site();
    const [first, second, third] = await at.startAll('one', 'two', 'three');
    await at.client.query(
      `UPDATE replicas SET started_at = started_at + interval '1 hour' WHERE address LIKE '%two%'`,
    );
    await first.lock()?.handOver();
    assert.ok(await second.leads());
    assert.equal(third.lock(), undefined);
  });
});
