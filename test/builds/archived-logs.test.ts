/** Logs of ended builds that several servers share. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  archivedLogs,
  type LogArchive,
  sendUnsent,
  unsentIn,
} from '../../src/builds/logs/archived-logs.ts';
import { type BuildLogs, createBuildLogs } from '../../src/builds/logs/build-logs.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';

function memoryArchive(): LogArchive & { readonly kept: ReadonlyMap<string, Buffer> } {
  const kept = new Map<string, Buffer>();
  return {
    kept,
    put: async (name, bytes) => void kept.set(name, bytes),
    read: async name => kept.get(name),
    remove: async name => void kept.delete(name),
    async *names() {
      yield* kept.keys();
    },
  };
}

/** Writes the whole log of a build. @param isStored whether the end of the build is stored, too */
async function endBuild(logs: BuildLogs, id: string, isStored: boolean): Promise<void> {
  const writer = logs.begin(id);
  writer.write('ended\n');
  await writer.written();
  await writer.share();
  if (isStored) writer.settle();
  await writer.end();
}

const id = '0a_1';

test('a build has its whole log at each server before it counts as ended', async () => {
  await using directory = await makeTempDir('archived-logs');
  const archive = memoryArchive();
  const server = (name: string) => {
    const own = directory.join(name);
    return archivedLogs(createBuildLogs(own), own, archive, error => assert.fail(String(error)));
  };
  const writer = server('one').begin(id);
  writer.write('first\n');
  writer.write('last\n');
  await writer.written();
  assert.equal(archive.kept.size, 0);
  await writer.share();
  // It may be killed now.
  assert.equal(await server('other').read(id), 'first\nlast\n');
});

test('a log that cannot be brought now is not taken for an empty one', async () => {
  await using directory = await makeTempDir('archived-logs');
  const failure = new Error('no object store');
  const failing: LogArchive = {
    ...memoryArchive(),
    read: () => Promise.reject(failure),
  };
  const errors: unknown[] = [];
  const own = directory.join('own');
  const logs = archivedLogs(createBuildLogs(own), own, failing, error => errors.push(error));
  await assert.rejects(logs.read(id), failure);
  await assert.rejects(logs.follow(id, new AbortController().signal).next(), failure);
  assert.equal(await logs.lines(id), undefined);
  assert.deepEqual(errors, [failure, failure, failure]);
});

test('a server that has lost the lead does not replace the log of the next one', async () => {
  await using directory = await makeTempDir('archived-logs');
  const archive = memoryArchive();
  const server = (name: string) => {
    const own = directory.join(name);
    return archivedLogs(createBuildLogs(own), own, archive, error => assert.fail(String(error)));
  };
  const formerLogs = server('former');
  const former = formerLogs.begin(id);
  former.write('begun\n');
  await former.written();
  const next = server('next').begin(id);
  next.write('begun again\nended\n');
  await next.written();
  await next.share();
  await next.end();
  // It has not noticed yet that another server leads.
  await assert.rejects(formerLogs.read(id, { isEnded: true }), /Another server of this site/);
  assert.equal(await formerLogs.read(id, { isEnded: false }), 'begun\n');
  former.write('The server stops\n');
  await former.end();
  for (const name of ['former', 'next', 'third']) {
    assert.equal(await server(name).read(id), 'begun again\nended\n', name);
  }
});

test('a log that ends while the archive is away is copied when it is back', async () => {
  await using directory = await makeTempDir('archived-logs');
  const archive = memoryArchive();
  let isAway = true;
  let refusals = 0;
  const sometimes: LogArchive = {
    ...archive,
    async put(name, bytes) {
      if (!isAway) return archive.put(name, bytes);
      refusals += 1;
      throw new Error('no object store');
    },
  };
  const errors: unknown[] = [];
  const own = directory.join('own');
  const onError = (error: unknown) => void errors.push(error);
  const logs = archivedLogs(createBuildLogs(own), own, sometimes, onError, 1);
  const [settled, removed, unsettled] = ['0a_1', '0a_2', '0a_3'];
  await endBuild(logs, settled, true);
  await endBuild(logs, removed, true);
  await endBuild(logs, unsettled, false);
  await eventually('it was tried again', () => refusals > 5);
  await logs.remove(removed);
  isAway = false;
  await eventually('the log is copied', () => archive.kept.size > 0);
  assert.equal(errors.length, 3, 'one report for each build');
  const other = directory.join('other');
  const elsewhere = archivedLogs(createBuildLogs(other), other, archive, onError);
  assert.equal(await elsewhere.read(settled), 'ended\n');
  assert.equal(await elsewhere.read(removed), undefined);
  // Another server may run this build again, because its end was not stored.
  assert.equal(await elsewhere.read(unsettled), undefined);
});

test('a log that the archive did not take before its server was killed is sent by the next process', async () => {
  await using directory = await makeTempDir('archived-logs');
  const archive = memoryArchive();
  const away: LogArchive = { ...archive, put: () => Promise.reject(new Error('no object store')) };
  const errors: unknown[] = [];
  const onError = (error: unknown) => void errors.push(error);
  const own = directory.join('own');
  const logs = archivedLogs(createBuildLogs(own), own, away, onError, 3_600_000);
  const [kept, again, unsettled] = ['0a_1', '0a_2', '0a_3'];
  for (const one of [kept, again]) await endBuild(logs, one, true);
  await endBuild(logs, unsettled, false);
  const other = directory.join('other');
  const elsewhere = archivedLogs(createBuildLogs(other), other, archive, onError);
  await assert.rejects(
    elsewhere.read(kept, { isEnded: true }),
    /has not sent it to the others yet/,
  );
  const following = elsewhere.follow(kept, new AbortController().signal, { isEnded: true });
  await assert.rejects(following.next(), /has not sent it to the others yet/);
  await archive.put(`${again}.log`, Buffer.from('of another server\n'));

  let attempts = 0;
  const back: LogArchive = {
    ...archive,
    put(name, bytes) {
      attempts += 1;
      return attempts > 2 ? archive.put(name, bytes) : away.put(name, bytes);
    },
  };
  const { signal } = new AbortController();
  await sendUnsent(own, back, onError, signal, 1);
  assert.equal(archive.kept.get(`${kept}.log`)?.toString(), 'ended\n');
  assert.equal(archive.kept.get(`${again}.log`)?.toString(), 'of another server\n');
  assert.equal(archive.kept.has(`${unsettled}.log`), false);
  assert.deepEqual(await unsentIn(own), []);
});
