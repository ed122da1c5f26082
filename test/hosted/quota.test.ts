import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { assertRegistryFault } from '../faults/http-client.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { administered, basic, expect, Repository } from './push-client.ts';

const start = (hosted: object): Promise<Sluice> =>
  startSluice({ config: { ...administered, hosted } });

/** Pushes without stating the length. */
async function stream(repository: Repository, bytes: Buffer) {
  const location = await repository.begin();
  return repository.send('PATCH', location, bytes, { 'transfer-encoding': 'chunked' });
}

test("the limit of a blob's size applies to every way to push", async () => {
  await using sluice = await start({ maxBlobBytes: '1 MiB' });
  const repository = new Repository(sluice, 'team/app');
  const tooLarge = { status: 413, code: 'SIZE_INVALID', message: /1048576 bytes.*maxBlobBytes/ };
  const most = pattern(1024 * 1024, 'most');
  const more = pattern(8 * 1024 * 1024, 'more');
  expect(await repository.pushBlob(most), 201);
  assertRegistryFault(await repository.pushBlob(more), tooLarge);
  assertRegistryFault(await stream(repository, more), tooLarge);
  const location = await repository.begin();
  expect(await repository.send('PATCH', location, most), 202);
  assertRegistryFault(await repository.send('PATCH', location, Buffer.from('1')), tooLarge);
});

test('a repository is full at its limit, and has space again after a deletion', async () => {
  await using sluice = await start({ maxRepositoryBytes: '1 MiB' });
  const repository = new Repository(sluice, 'team/app');
  const first = pattern(700_000, 'first');
  const second = pattern(400_000, 'second');
  const full = { status: 403, code: 'DENIED', message: /team\/app can hold at most 1048576 bytes/ };
  expect(await repository.pushBlob(first), 201);
  assertRegistryFault(await repository.pushBlob(second), full);
  assertRegistryFault(await stream(repository, pattern(9_000_000, 'second')), full);
  const other = new Repository(sluice, 'team/other');
  expect(await other.pushBlob(second), 201);
  const mount = `blobs/uploads/?mount=${digestOf(second)}&from=team/other`;
  assertRegistryFault(await repository.send('POST', mount), full);
  expect(await repository.send('DELETE', `blobs/${digestOf(first)}`), 202);
  expect(await repository.send('POST', mount), 201);
});

test('all repositories together have a limit; shared content counts once', async () => {
  await using sluice = await start({ maxTotalBytes: '1 MiB' });
  const blob = pattern(600_000, 'shared');
  for (const name of ['team/one', 'team/two', 'team/three']) {
    const repository = new Repository(sluice, name);
    const isFirst = name === 'team/one';
    const reply = isFirst
      ? await repository.pushBlob(blob)
      : await repository.send('POST', `blobs/uploads/?mount=${digestOf(blob)}&from=team/one`);
    assert.equal(reply.status, 201, reply.body.toString());
  }
  const full = { status: 403, code: 'DENIED', message: /The registry can hold at most/ };
  assertRegistryFault(
    await new Repository(sluice, 'team/four').pushBlob(pattern(600_000, 'x')),
    full,
  );
});

test('simultaneous uploads do not exceed the limits', async () => {
  for (const limits of [{ maxTotalBytes: '1 MiB' }, { maxRepositoryBytes: '1 MiB' }]) {
    await using sluice = await start(limits);
    const repository = new Repository(sluice, 'team/app');
    const full = { status: 403, code: 'DENIED', message: /can hold at most 1048576 bytes/ };
    const open: string[] = [];
    for (let count = 0; count < 4; count += 1) {
      const location = await repository.begin();
      const reply = await repository.send('PATCH', location, pattern(400_000, `${count}`));
      if (count < 2) expect(reply, 202);
      else assertRegistryFault(reply, full);
      open.push(location);
    }
    // One of them ends, so that there is space for another.
    expect(await repository.send('DELETE', open[0] ?? ''), 204);
    expect(await repository.send('PATCH', await repository.begin(), pattern(400_000, 'new')), 202);
    const last = pattern(400_000, '1');
    expect(await repository.send('PUT', `${open[1]}?digest=${digestOf(last)}`), 201);
    assertRegistryFault(await repository.pushBlob(pattern(400_000, 'more')), full);
  }
});

test('the number of open uploads of an account is limited', async () => {
  const other = { password: 'pw', repositories: { 'team/*': 'push' } };
  await using sluice = await startSluice({ config: { accounts: { admin: 'secret', other } } });
  const repository = new Repository(sluice, 'team/app');
  const locations = await Promise.all(Array.from({ length: 500 }, () => repository.begin()));
  const tooMany = { status: 429, code: 'TOOMANYREQUESTS', message: /Too many uploads are open/ };
  assertRegistryFault(await repository.send('POST', 'blobs/uploads/'), tooMany);
  const neighbour = new Repository(sluice, 'team/app', basic('other', 'pw'));
  expect(await neighbour.send('POST', 'blobs/uploads/'), 202);
  expect(await repository.send('DELETE', locations[0] ?? ''), 204);
  expect(await repository.send('POST', 'blobs/uploads/'), 202);
});
