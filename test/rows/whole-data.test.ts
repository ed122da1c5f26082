import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pattern } from '../faults/scripted-upstream.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const layer = pattern(1000, 'layer');

/** A data directory with a hosted image and credentials of a user. */
async function fill(directory: TempDir, name: string): Promise<string> {
  const data = directory.join(name);
  {
    await using sluice = await startSluice({ config: administered, data });
    await new Repository(sluice, 'team/app').pushImage('one', [layer]);
  }
  const at = ['--data', data];
  assert.equal((await sluiceCommand(['user', 'add', 'ada@example.org', ...at])).code, 0);
  const add = ['credentials', 'add', 'quay.io', '--user', 'ada@example.org', '--username', 'ada'];
  assert.equal((await sluiceCommand([...add, '--password-stdin', ...at], {}, 'hush\n')).code, 0);
  return data;
}

/** Checks that a server and a command refuse to start for this reason, and change nothing. */
async function assertRefused(data: string, reason: RegExp): Promise<void> {
  const before = (await readdir(data, { recursive: true })).sort();
  await assert.rejects(startSluice({ config: administered, data }), (error: Error) => {
    assert.match(error.message, reason);
    return true;
  });
  const environment = { SLUICE_SWEEP_GRACE: '0s' };
  const { code, stderr } = await sluiceCommand(['gc', '--data', data], environment);
  assert.equal(code, 1, stderr);
  assert.match(stderr, reason);
  const own = /^(?:server\.lock.*|sluice\.db-(?:wal|shm))$/;
  const after = (await readdir(data, { recursive: true })).sort();
  const others = (names: string[]) => names.filter(name => !own.test(name));
  assert.deepEqual(others(after), others(before));
}

/** The image is there and whole. */
async function assertServed(data: string): Promise<void> {
  await using sluice = await startSluice({ config: administered, data });
  expect(await new Repository(sluice, 'team/app').get('manifests/one'), 200);
}

test('an incomplete data directory is refused with a remedy, and served when it is complete again', async () => {
  await using directory = await makeTempDir('whole-data');
  const data = await fill(directory, 'data');
  const without = async (part: string, reason: RegExp): Promise<void> => {
    const away = directory.join('away');
    await rename(join(data, part), away);
    await assertRefused(data, reason);
    await rm(join(data, part), { recursive: true, force: true });
    await rename(away, join(data, part));
  };
  await without(
    'sluice.db',
    /sluice\.db is missing, but .*content holds content.*restore sluice\.db from a backup, or move .*content away/,
  );
  await without('content', /content is missing, or is not what .* refers to: mount it, or restore/);
  await without('secrets.key', /secrets\.key is missing, but .*restore it from a backup/);

  // Like a mount point without its mount.
  await rename(join(data, 'content'), directory.join('away'));
  await mkdir(join(data, 'content'));
  await assertRefused(data, /content is missing/);
  await rm(join(data, 'content'), { recursive: true });
  await rename(directory.join('away'), join(data, 'content'));

  // An empty file is what a repair of the file system may leave.
  await cp(join(data, 'sluice.db'), directory.join('away'));
  await truncate(join(data, 'sluice.db'));
  await assertRefused(data, /sluice\.db is missing/);
  await rename(directory.join('away'), join(data, 'sluice.db'));
  await assertServed(data);
});

test('a missing key of the registry tokens, and a missing upload directory, are created', async () => {
  await using directory = await makeTempDir('whole-data');
  const data = await fill(directory, 'data');
  await rm(join(data, 'registry-token.key'));
  await rm(join(data, 'content/tmp'), { recursive: true });
  await using sluice = await startSluice({ config: administered, data });
  await new Repository(sluice, 'team/app').pushImage('two', [pattern(1000, 'two')]);
  // And while it runs.
  await rm(join(data, 'content/tmp'), { recursive: true });
  await new Repository(sluice, 'team/app').pushImage('three', [pattern(1000, 'three')]);
});

test('a database of another directory is refused until the content is adopted', async () => {
  await using directory = await makeTempDir('whole-data');
  const data = await fill(directory, 'data');
  const other = await fill(directory, 'other');
  await rename(join(data, 'content'), directory.join('own'));
  await rename(join(other, 'content'), join(data, 'content'));
  await assertRefused(data, /belongs to another database.*--adopt-content/);
  const adopted = await sluiceCommand(['verify', '--adopt-content', '--data', data]);
  assert.equal(adopted.code, 0, adopted.stderr);
  await assertServed(data);

  await rm(join(data, 'content'), { recursive: true });
  const empty = await sluiceCommand(['verify', '--adopt-content', '--data', data]);
  assert.equal(empty.code, 1, 'all is missing');
  assert.match(empty.stdout, /missing: team\/app/);
  await using sluice = await startSluice({ config: administered, data });
  await new Repository(sluice, 'team/app').pushImage('one', [layer]);
});

test('the first start may be interrupted at any point: the next one continues', async () => {
  await using directory = await makeTempDir('whole-data');
  const data = directory.join('data');
  (await startSluice({ data })).stop();
  for (const parts of [
    ['content'],
    ['sluice.db'],
    ['secrets.key', 'registry-token.key'],
    ['content', 'sluice.db', 'secrets.key'],
  ]) {
    for (const part of parts) await rm(join(data, part), { recursive: true, force: true });
    await using sluice = await startSluice({ data });
    assert.equal((await sluice.fetch('/readyz')).status, 200);
  }
  // A draft of a file that was never put in its place.
  await writeFile(join(data, 'secrets.key.draft'), '');
  await using _ = await startSluice({ data });
  assert.ok(existsSync(join(data, 'content/id')));
});
