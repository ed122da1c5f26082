/** The reserve of a small disk, for every writer. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { pino } from 'pino';
import { convertToSif } from '../../src/images/sif/convert.ts';
import { overviewTab } from '../../src/pages/usage/overview-tab.ts';
import type { UsagePageDeps } from '../../src/pages/usage/usage-data.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { createDiskSpace, diskState } from '../../src/storage/directory/disk-space.ts';
import { optionsFor, sourceOf } from '../sif/conversion.ts';
import { layerOfTar, tarOf } from '../sif/tar-file.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

const mebibyte = 1024 * 1024;
// 5 % of it are the reserve: 2 MiB.
const diskBytes = 40 * mebibyte;
const full = { kind: 'storage-full' };
let directory: TempDir;

before(async () => {
  directory = await makeTempDir('disk-space');
  const options = ['-t', 'tmpfs', '-o', `size=${diskBytes}`];
  execFileSync(requireCommand('mount'), [...options, 'tmpfs', directory.path]);
});
after(async () => {
  execFileSync(requireCommand('umount'), [directory.path]);
  await directory.remove();
});

async function openDisk() {
  const space = await createDiskSpace(directory.path, 1e9, pino({ level: 'silent' }));
  return { space, store: await openContentDirectory(directory.join('content'), { space }) };
}

const pieces = (count: number) => Array.from({ length: count }, () => Buffer.alloc(mebibyte));

test('promised space stays promised, however often the disk is measured', async () => {
  const { space, store } = await openDisk();
  const first = await store.ingest('sha256', 20 * mebibyte);
  await space.look();
  await assert.rejects(store.ingest('sha256', 20 * mebibyte), full);
  for (const piece of pieces(10)) await first.write(piece);
  await space.look();
  await assert.rejects(store.ingest('sha256', 20 * mebibyte), full);
  const second = await store.ingest('sha256', 16 * mebibyte);
  // More than the promised space is requested.
  for (const piece of pieces(10)) await first.write(piece);
  await assert.rejects(first.write(...pieces(4)), full);
  await second.abort();
  await first.write(...pieces(4));
  await first.abort();
  await space.look();
  await (await store.ingest('sha256', 36 * mebibyte)).abort();
});

test('promised space is not written into a reserve that another process has used', async () => {
  const { space, store } = await openDisk();
  const ingest = await store.ingest('sha256', 20 * mebibyte);
  await ingest.write(...pieces(1));
  const ballast = directory.join('ballast');
  await writeFile(ballast, Buffer.alloc(diskBytes - 2.5 * mebibyte));
  await space.look();
  await assert.rejects(ingest.write(...pieces(1)), full);
  await rm(ballast);
  await space.look();
  await ingest.write(...pieces(1));
  await ingest.abort();
});

test('a conversion to SIF does not use the reserve', async () => {
  const { space } = await openDisk();
  const source = sourceOf([layerOfTar(tarOf([{ name: 'noise', content: randomBytes(mebibyte) }]))]);
  const convert = async (name: string) => {
    const scratch = directory.join(name);
    await mkdir(scratch);
    assert.ok(await space.has(scratch));
    const disk = space.promise(0);
    await convertToSif(source, { ...optionsFor(scratch), disk }).finally(disk.end);
  };
  const others = space.promise(37 * mebibyte);
  await assert.rejects(convert('full'), full);
  others.end();
  await convert('enough');
});

test('the page of operators has the reserve in force, and does not call a small disk low', async () => {
  const operation = { directory: directory.path, minFreeBytes: 1024 * mebibyte };
  assert.equal((await diskState(directory.path, operation.minFreeBytes)).isLow, false);
  const limits = { maxRunning: 1, maxWaiting: 1 };
  const page = await overviewTab.read({ from: '2026-01-01', to: '2026-01-01' }, {
    operation: { ...operation, ...limits },
    builds: { load: () => ({ running: 0, waiting: 0 }) },
    readiness: { forAll: async () => {} },
    usage: { ofDay: async () => ({ count: 0, orgs: new Map() }) },
  } as unknown as UsagePageDeps);
  const text = String(page.now);
  assert.ok(text.includes('Writes stop below 2.1 MB.') && !text.includes('Low'), text);
});
