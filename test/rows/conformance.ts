import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import type { PullSubject } from '../../src/storage/rows/figures/usage-rows.ts';
import type { BuildOutcome, NewBuild } from '../../src/storage/rows/images/build-rows.ts';
import type { Rows } from '../../src/storage/rows/rows.ts';
import { eventually } from '../world/eventually.ts';
import { testMessages } from './message-conformance.ts';
import { testNeeds } from './needs-conformance.ts';
import { testScans } from './scan-conformance.ts';
import { testUploads } from './upload-conformance.ts';
import { testVerifiedLayers } from './verified-layer-conformance.ts';

const page = { limit: 10, offset: 0 };
const none = Buffer.alloc(0);
const unlimited = {
  maxBlobBytes: undefined,
  maxRepositoryBytes: undefined,
  maxTotalBytes: undefined,
};
const about = { mediaType: 'm', size: 10, subject: null, artifactType: null, annotations: null };
const failed: BuildOutcome = { succeeded: false, reason: 'why' };

/** Runs work on fresh rows and ends them. */
type WithRows = (work: (rows: Rows) => Promise<void>) => Promise<void>;

/**
 * Tests the requirements of every implementation of {@link Rows}, through its interface alone.
 * @param open opens fresh, empty rows
 */
export function testRows(name: string, open: () => Promise<Rows>): void {
  const withRows: WithRows = async work => {
    const rows = await open();
    try {
      await work(rows);
    } finally {
      await rows.end();
    }
  };
  suite(`rows in ${name}`, () => {
    testRequests(withRows);
    testBuilds(withRows);
    testHosted(withRows);
    testPeople(withRows);
    testNotes(withRows);
    testUploads(withRows);
    testMessages(withRows);
    testScans(withRows);
    testVerifiedLayers(withRows);
    testNeeds(withRows);
  });
}

function testRequests(withRows: WithRows): void {
  const row = (expiresAt: number) => ({ createdAt: 1, expiresAt, body: '{}', needs: none });
  const hash = (text: string) => Buffer.from(text);

  test('of two simultaneous revocations of a request, one succeeds', () =>
    withRows(async ({ requests }) => {
      await requests.insert(hash('one'), row(10));
      const revoked = await Promise.all([
        requests.revoke(hash('one'), 5),
        requests.revoke(hash('one'), 6),
      ]);
      assert.deepEqual(revoked.sort(), [false, true]);
      assert.ok((await requests.find(hash('one')))?.revokedAt);
      assert.equal(await requests.revoke(hash('none'), 5), false);
      assert.equal(await requests.find(hash('none')), undefined);
    }));

  test('requests are listed and purged in the order of their ends', () =>
    withRows(async ({ requests }) => {
      const ends = [30, 10, 20];
      await Promise.all(ends.map(end => requests.insert(hash(`${end}`), row(end))));
      const first = await requests.endingAfter({ expiresAt: 0, id: 0 }, 2);
      assert.deepEqual(
        first.map(({ expiresAt }) => expiresAt),
        [10, 20],
      );
      const last = first.at(-1);
      assert.ok(last);
      const rest = await requests.endingAfter(last, 2);
      assert.deepEqual(
        rest.map(({ expiresAt }) => expiresAt),
        [30],
      );
      assert.equal(await requests.purge(20), 1);
      assert.equal(await requests.find(hash('10')), undefined);
    }));

  test('one row holds the end of all names of a run, and a name may be extended beyond it', () =>
    withRows(async ({ requests, runs }) => {
      const run = { key: hash('run'), platform: 'a.example.com', leaseUntil: 20, dueAt: 15 };
      await Promise.all(['one', 'two'].map(id => requests.insert(hash(id), { ...row(100), run })));
      await requests.insert(hash('three'), row(100));
      const ends = async () =>
        (await requests.endingAfter({ expiresAt: 0, id: 0 }, 10)).map(({ leaseUntil, body }) => [
          ...[leaseUntil, body !== null],
        ]);
      assert.deepEqual(await ends(), [
        ...[
          [20, true],
          [20, true],
        ],
        [null, true],
      ]);
      assert.deepEqual(await runs.due('b.example.com', 15, 50, 10), []);
      assert.deepEqual(await runs.due('a.example.com', 14, 50, 10), []);
      const due = { leaseUntil: 20, endsAt: 100 };
      const [found] = await runs.due('a.example.com', 15, 50, 10);
      assert.deepEqual({ ...found, key: String(found?.key) }, { ...due, key: 'run' });
      assert.equal((await runs.newestRequests(run.key, 5)).length, 2);
      await requests.revoke(hash('two'), 5);
      assert.equal((await runs.newestRequests(run.key, 5)).length, 1);

      // A wrong clock dated it.
      await runs.postpone(run.key, 1000);
      assert.equal((await runs.due('a.example.com', 15, 50, 10)).length, 1);
      await runs.renew(run.key, 40, 35);
      assert.equal((await requests.find(hash('one')))?.leaseUntil, 40);
      assert.ok(await requests.extend(hash('one'), 60, undefined));
      assert.ok(await requests.extend(hash('three'), 60, undefined));
      assert.equal(await requests.extend(hash('two'), 60, undefined), false, 'it was revoked');
      const after = await Promise.all(['one', 'three'].map(id => requests.find(hash(id))));
      assert.deepEqual(
        after.map(found => [found?.expiresAt, found?.leaseUntil]),
        [
          [100, 60],
          [100, null],
        ],
      );

      await requests.insert(hash('four'), { ...row(200), run: { ...run, leaseUntil: 45 } });
      await runs.end(run.key, 30);
      assert.equal((await requests.find(hash('four')))?.leaseUntil, 30);
      assert.deepEqual((await ends()).at(-1), [30, false], 'its content is no longer needed');
      await runs.renew(run.key, 90, 85);
      assert.equal((await requests.find(hash('four')))?.leaseUntil, 30, 'it has ended');
      assert.deepEqual(await runs.due('a.example.com', 5000, 6000, 10), []);
      await requests.insert(hash('five'), { ...row(200), run: { ...run, leaseUntil: 50 } });
      assert.equal((await runs.due('a.example.com', 15, 50, 10)).length, 1, 'confirmed again');
      assert.equal(await runs.purge(200, 1000), 0);
      assert.equal(await runs.purge(201, 1000), 1);
    }));
}

function testBuilds(withRows: WithRows): void {
  const build = (owner: string): NewBuild => ({
    ...{ key: 'key', target: 'registry.example.com/builds:key', plan: '{}' },
    ...{ owner, isTrusted: false, grant: null },
  });

  test('of simultaneous callers for one image, one creates the build and all get it', () =>
    withRows(async ({ builds }) => {
      const owners = ['a', 'b', 'c', 'd'];
      const entered = await Promise.all(
        owners.map(owner => builds.insert(build(owner), undefined, 1)),
      );
      assert.equal(entered.filter(({ isNew }) => isNew).length, 1);
      assert.equal(new Set(entered.map(({ row }) => row.id)).size, 1);
      assert.equal((await builds.unfinished(0, 10)).length, 1);
    }));

  test('a caller who missed the end of a build gets it, and one who saw it starts another build', () =>
    withRows(async ({ builds }) => {
      const { row } = await builds.insert(build('a'), undefined, 1);
      await builds.start(row, 2);
      await builds.finish(row.id, failed, 3, 4);
      const late = await builds.insert(build('b'), undefined, 5);
      assert.deepEqual([late.isNew, late.row.id, late.row.reason], [false, row.id, 'why']);
      const again = await builds.insert(build('b'), late.row, 6);
      assert.equal(again.isNew, true);
      assert.equal((await builds.latest(row.target))?.id, again.row.id);
    }));

  test('the first end of a build counts, and has one message', () =>
    withRows(async ({ builds, messages }) => {
      const { row } = await builds.insert(build('a'), undefined, 1);
      const told = (event: string) => [
        {
          ...{ event, target: 'ci', sender: '7', kind: 'build', subject: row.id },
          ...{ createdAt: 3, body: '{}' },
        },
      ];
      await builds.finish(row.id, failed, 3, 4, told('first'));
      await builds.finish(row.id, { succeeded: false, reason: 'another' }, 5, 6, told('second'));
      const ended = await builds.find(row.id);
      assert.deepEqual([ended?.reason, ended?.finishedAt], ['why', 3]);
      const listed = await messages.list({ limit: 10 });
      assert.deepEqual(
        listed.map(({ event }) => event),
        ['first'],
      );
    }));

  test('the start of a build is counted once, also when its change runs twice', () =>
    withRows(async ({ builds }) => {
      const { row } = await builds.insert(build('a'), undefined, 1);
      for (const _ of [1, 2]) await builds.start(row, 2);
      assert.equal((await builds.find(row.id))?.starts, 1);
      for (const _ of [1, 2]) await builds.leave(row);
      assert.equal((await builds.find(row.id))?.starts, 0);
    }));

  test('samples of the queue are counted once while they are written', () =>
    withRows(async ({ queue }) => {
      queue.note(1, { running: 1, waiting: 0 });
      const first = queue.flush();
      queue.note(2, { running: 2, waiting: 1 });
      await Promise.all([first, queue.flush()]);
      await queue.flush();
      const [hour] = await queue.between(0, 10);
      assert.deepEqual([hour?.samples, hour?.queued, hour?.mostRunning], [2, 1, 2]);
    }));

  test('a finished build stays as long as a request refers to it', () =>
    withRows(async ({ builds, requests }) => {
      const { row } = await builds.insert(build('a'), undefined, 1);
      await builds.finish(row.id, failed, 3, 10);
      const request = { createdAt: 1, expiresAt: 50, body: '{}', needs: none, buildId: row.id };
      await requests.insert(Buffer.from('token'), request);
      assert.deepEqual(await builds.expired(20, 10), []);
      assert.equal(await builds.remove(row.id, 20), false);
      assert.deepEqual(
        (await builds.expired(60, 10)).map(({ id }) => id),
        [row.id],
      );
      assert.equal(await builds.remove(row.id, 60), true);
      assert.equal(await builds.find(row.id), undefined);
    }));
}

function testPeople(withRows: WithRows): void {
  test('of simultaneous additions of the same user or workspace, one succeeds', () =>
    withRows(async ({ users, workspaces }) => {
      const added = await Promise.all([1, 2, 3].map(at => users.insert('ada@example.org', at)));
      assert.equal(added.filter(user => user !== undefined).length, 1);
      const named = await Promise.all(
        ['lab', 'LAB'].map((name, at) => workspaces.insert(name, at)),
      );
      assert.equal(named.filter(workspace => workspace !== undefined).length, 1);
      assert.equal((await users.list(page)).total, 1);
    }));

  test('a user has no more tokens than allowed, also after simultaneous additions', () =>
    withRows(async ({ users, accessTokens }) => {
      const user = (await users.insert('ada@example.org', 1))?.id ?? 0;
      const add = (name: string, owner = user) =>
        accessTokens.insert(
          Buffer.from(`${owner} ${name}`),
          { user: owner, name, createdAt: 1, expiresAt: null, rights: null, creator: null },
          2,
        );
      const added = await Promise.all(['a', 'b', 'c', 'd'].map(name => add(name)));
      assert.equal(added.filter(token => token === 'too-many').length, 2);
      assert.equal((await accessTokens.list(user, page)).total, 2);
      assert.equal(await add('a', user + 1), 'unknown-owner');
      const [first] = (await accessTokens.list(user, page)).entries;
      assert.ok(first);
      assert.equal(await accessTokens.remove(first.id, user + 1), undefined);
      const removed = await Promise.all([
        accessTokens.remove(first.id, user),
        accessTokens.remove(first.id, user),
      ]);
      assert.equal(removed.filter(token => token !== undefined).length, 1);
    }));

  test('members, tokens and credentials are removed with their user', () =>
    withRows(async ({ users, workspaces, accessTokens, credentials }) => {
      const user = (await users.insert('ada@example.org', 1))?.id ?? 0;
      const workspace = (await workspaces.insert('lab', 1))?.id ?? 0;
      assert.equal(await workspaces.addMember(workspace, user), true);
      assert.equal(await workspaces.addMember(workspace, user + 1), false);
      const token = { user, name: 'a', createdAt: 1, expiresAt: null, rights: null, creator: null };
      await accessTokens.insert(Buffer.from('hash'), token, 10);
      const held = await accessTokens.findByHash(Buffer.from('hash'));
      assert.deepEqual(held?.holder, await users.find(user));
      const credential = {
        ...{ id: 'one', owner: { kind: 'user', id: user } as const, name: 'n' },
        ...{ description: null, provider: 'p', shown: '{}', sealed: 's', createdAt: 1 },
      };
      assert.equal(await credentials.insert(credential, 10), 'added');
      assert.equal(await credentials.insert({ ...credential, id: 'two' }, 10), 'taken');
      for (const owner of [credential.owner, undefined]) {
        const { entries, total } = await credentials.list(owner, { limit: 10, offset: 0 });
        const { sealed: _, ...shown } = credential;
        assert.deepEqual(
          [entries, total],
          [[{ ...shown, usedDay: null }], 1],
          'without the secret',
        );
      }
      assert.deepEqual(await credentials.find('one'), { ...credential, usedDay: null });
      assert.equal(await users.remove(user), true);
      assert.equal(await credentials.find('one'), undefined);
      assert.equal(await accessTokens.findByHash(Buffer.from('hash')), undefined);
      assert.equal(await workspaces.hasMember(workspace, user), false);
      assert.equal(await credentials.insert(credential, 10), 'unknown-owner');
    }));
}

function testHosted(withRows: WithRows): void {
  const blob = digestOf('blob');
  const manifest = digestOf('manifest');

  /** Records content as stored, which a push requires. */
  const arrive = async ({ contentRows }: Rows, digest: typeof blob, size = 10) => {
    await contentRows.announce(digest, size);
    assert.equal(await contentRows.arrive(digest), true);
  };

  test('a manifest requires its parts, and keeps them', () =>
    withRows(async rows => {
      const { hosted } = rows;
      await arrive(rows, blob);
      await arrive(rows, manifest);
      const push = {
        ...{ repository: 'team/app', manifest: { ...about, digest: manifest }, manifests: [] },
        ...{ blobs: [{ digest: blob, size: 10, isOptional: false }], tags: ['latest'] },
        limits: unlimited,
      };
      assert.equal((await hosted.putManifest(push)).kind, 'missing-blob');
      assert.equal(await hosted.manifest('team/app', manifest), undefined);
      const put = { repository: 'team/app', digest: blob, size: 10, at: 1, limits: unlimited };
      await hosted.putBlob(put);
      const signal = AbortSignal.abort();
      await assert.rejects(hosted.putManifest({ ...push, signal }), { name: 'AbortError' });
      assert.equal(await hosted.tagged('team/app', 'latest'), undefined);
      assert.equal((await hosted.putManifest(push)).kind, 'put');
      for (const removal of [
        hosted.removeTag('team/app', 'latest', { signal }),
        hosted.removeManifest('team/app', manifest, { signal }),
        hosted.removeBlob('team/app', blob, { signal }),
      ]) {
        await assert.rejects(removal, { name: 'AbortError' });
      }
      assert.equal(await hosted.tagged('team/app', 'latest'), manifest);
      assert.equal((await hosted.removeBlob('team/app', blob)).kind, 'needed');
      assert.equal(await hosted.repositoryBytes('team/app'), 20);
      assert.equal(await hosted.removeManifest('team/app', manifest), true);
      assert.equal((await hosted.removeBlob('team/app', blob)).kind, 'removed');
      assert.equal((await hosted.removeBlob('team/app', blob)).kind, 'unknown');
      assert.equal(await hosted.totalBytes(), 0);
    }));

  test('simultaneous pushes cannot exceed a limit together', () =>
    withRows(async rows => {
      const { hosted } = rows;
      const digests = ['a', 'b', 'c'].map(text => digestOf(text));
      for (const digest of digests) await arrive(rows, digest);
      const limits = { ...unlimited, maxRepositoryBytes: 25 };
      await Promise.all(
        digests.map(digest =>
          hosted.putBlob({ repository: 'team/app', digest, size: 10, at: 1, limits }),
        ),
      );
      assert.equal(await hosted.repositoryBytes('team/app'), 20);
    }));
}

function testNotes(withRows: WithRows): void {
  test('a copy whose use is still being written is not the oldest one', () =>
    withRows(async ({ cachedBlobs }) => {
      const copies = Array.from({ length: 20 }, (_, at) => digestOf(`copy ${at}`));
      for (const [at, digest] of copies.entries()) {
        await cachedBlobs.enter({ digest, size: 1, places: ['one.test'], at, wasHere: false });
      }
      for (const digest of copies.slice(0, 19)) cachedBlobs.touch(digest, 100);
      assert.equal((await cachedBlobs.oldest())?.digest, copies[19]);
    }));

  test('simultaneous additions are counted and kept', () =>
    withRows(async ({ usage, auditLog, anonymousUse }) => {
      for (let count = 0; count < 5; count += 1) usage.add('pulls', '2026-01-01', 'a.org');
      await Promise.all([usage.flush(), usage.flush()]);
      assert.equal(await usage.count('pulls', { org: 'a.org' }), 5);
      usage.add('pulls', '2026-01-01', 'a.org');
      usage.add('pulls', '2026-01-01', undefined);
      usage.add('pulls', '2026-01-02', 'a.org');
      const day = await usage.ofDay('pulls', '2026-01-01', 10);
      assert.deepEqual(
        { ...day, orgs: [...day.orgs] },
        {
          count: 7,
          orgs: [
            ['a.org', 6],
            ['', 1],
          ],
        },
      );
      const audit = auditLog(error => assert.fail(String(error)));
      for (const target of ['one', 'two']) audit.add({ actor: 'a', action: 'b', target });
      assert.deepEqual(
        (await audit.list({ limit: 10 })).map(({ target }) => target),
        ['two', 'one'],
      );
      await Promise.all(
        ['x', 'y', 'x'].map(text => anonymousUse.enter(digestOf(text), '192.0.2.1', 5)),
      );
      assert.deepEqual(await anonymousUse.of('192.0.2.1'), { requests: 0, files: 2, bytes: 10 });
    }));

  test('figures are right at each moment while counts are written', () =>
    withRows(async ({ pulls }) => {
      const all = Array.from({ length: 2000 }, (_, at) => `repository ${at}` as PullSubject);
      pulls.note(all);
      let isDone = false;
      const flushed = pulls.flush().finally(() => {
        isDone = true;
      });
      for (let at = 0; !isDone; at = (at + 97) % all.length) {
        const subject = all[at];
        assert.ok(subject);
        assert.equal((await pulls.recent(subject, '2026-01-01')).count, 1, subject);
        await new Promise(setImmediate);
      }
      await flushed;
    }));

  test('pulls are counted by subject and day, and removed after their time', () =>
    withRows(async ({ pulls }) => {
      const [one, other] = ['container 1', `repository ${'x'.repeat(255)}`] as PullSubject[];
      assert.ok(one && other);
      const today = new Date().toISOString().slice(0, 10);
      assert.deepEqual(await pulls.recent(one, today), { count: 0, lastAt: undefined });
      for (let count = 0; count < 5; count += 1) pulls.note([one]);
      await Promise.all([pulls.flush(), pulls.flush()]);
      pulls.note([one, other]);
      await pulls.flush();
      const { count, lastAt } = await pulls.recent(one, '2026-01-01');
      assert.deepEqual([count, typeof lastAt], [6, 'number']);
      assert.equal((await pulls.byDay(other, '2026-01-01'))[0]?.count, 1);
      pulls.note([other]);
      await pulls.remove(other, other);
      assert.deepEqual(await pulls.byDay(other, '2026-01-01'), []);
      pulls.note([other]);
      await pulls.flush();
      assert.equal(await pulls.purge('2026-01-01'), 0);
      assert.ok((await pulls.purge('9999-01-01')) >= 2);
      assert.deepEqual(await pulls.byDay(one, '2026-01-01'), []);
    }));

  test('secrets, readings of the clock and the id are replaced, not duplicated', () =>
    withRows(async ({ tokenPairs, sealed, clockReadings, identity }) => {
      const grant = Buffer.from('grant').toString('base64url');
      await tokenPairs.put(grant, 'one', 1);
      await tokenPairs.put(grant, 'two', 2);
      const found = await sealed.after(undefined, 10);
      const replaced = found.map(one => ({ ...one, resealed: 'three' }));
      await sealed.replace(replaced);
      await sealed.replace(replaced.map(one => ({ ...one, resealed: 'late' })));
      assert.equal(await tokenPairs.find(grant), 'three');
      assert.deepEqual(await sealed.after(found.at(-1)?.place, 10), []);
      clockReadings.write({ wallMs: 1, elapsedMs: 2, steadyFromMs: 3 });
      clockReadings.write({ wallMs: 4, elapsedMs: 5, steadyFromMs: 6 });
      await identity.setId('first');
      await identity.setId('second');
      assert.equal(await identity.id(), 'first');
      await identity.setId('second', { replaces: true });
      assert.equal(await identity.id(), 'second');
      await eventually(
        'the last reading is kept',
        async () => (await clockReadings.read())?.wallMs === 4,
      );
    }));

  test('a layer of packages is replaced by its key, and removed when it was not used for a time', () =>
    withRows(async ({ packageLayers }) => {
      const key = (text: string) => digestOf(text).slice('sha256:'.length);
      const hourMs = 3_600_000;
      const layer = {
        ...{ key: key('one'), digest: digestOf('a'), size: 10, tarDigest: digestOf('tar') },
        ...{ facts: '{}', pathHashes: Buffer.from('hashes'), paths: Buffer.from('paths'), at: 0 },
      };
      const group = { ...layer, key: key('two'), facts: null, pathHashes: null, paths: null };
      // One after the other: they are in the order of their rows below.
      await packageLayers.enter(layer);
      await packageLayers.enter(group);
      await packageLayers.enter({ ...layer, digest: digestOf('b') });
      const found = await packageLayers.find(layer.key, 2 * hourMs);
      assert.equal(found?.digest, digestOf('b'));
      assert.deepEqual(found.pathHashes, layer.pathHashes);
      assert.deepEqual(await packageLayers.paths(layer.key), layer.paths);
      assert.equal(await packageLayers.paths(group.key), undefined);
      assert.equal((await packageLayers.find(group.key, 1))?.facts, null);
      assert.equal(await packageLayers.find(key('three'), 1), undefined);
      const [first] = await packageLayers.after(0, 1);
      assert.equal(first?.digest, digestOf('b'));
      assert.deepEqual(
        (await packageLayers.after(first.id, 10)).map(({ digest }) => digest),
        [digestOf('a')],
      );
      // Only the first was used since.
      assert.equal(await packageLayers.purge(hourMs, 3 * hourMs), 1);
      assert.equal(await packageLayers.find(group.key, 1), undefined);
      assert.ok(await packageLayers.find(layer.key, 2 * hourMs));
      assert.equal(await packageLayers.purge(0, hourMs), 1, 'a wrong clock dated it');
    }));
}
