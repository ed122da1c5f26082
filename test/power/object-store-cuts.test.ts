/**
 * The object store and the database of deploy/compose, with the settings that the files there give them: what Sluice has
 * acknowledged is there after a power failure, on each file system that setup.cjs accepts.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { digestOf } from '../../src/oci/digest.ts';
import { createHostedStore } from '../../src/storage/rows/hosted/hosted-rows.ts';
import { openPostgres } from '../../src/storage/rows/postgres/postgres-database.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { freePort } from '../world/free-port.ts';
import { startObjectStore } from '../world/object-store.ts';
import { launchPostgres, startPostgres } from '../world/postgres.ts';
import { makePowerDisk, type PowerFileSystem } from '../world/power-disk.ts';
import { startSluice } from '../world/sluice.ts';

const run = promisify(execFile);

interface Setup {
  makeSynchronous(path: string): void;
}
const { makeSynchronous } = createRequire(import.meta.url)(
  '../../deploy/compose/setup.cjs',
) as Setup;

const name = 'team/app';
const cuts = 2;
// More than one request of the store takes.
const largeBytes = 9 * 2 ** 20;
// A hundred times what they take alone: a disk that hangs fails the test, with what waits for it.
const limits = { timeout: 300_000 };

// They wait for disks most of the time.
suite('after a power failure', { concurrency: true }, () => {
  test('acknowledged blobs, manifests and tags are there on ext4', limits, context =>
    cutPower(context, { type: 'ext4' }, openDatabase),
  );

  // Without wsync, XFS loses each manifest.
  test('acknowledged blobs and manifests are there on XFS with wsync', limits, context =>
    cutPower(context, { type: 'xfs', options: 'wsync' }),
  );
});

type Disk = Awaited<ReturnType<typeof makePowerDisk>>;

/** The database of a site whose disk loses its power. */
interface Database extends AsyncDisposable {
  readonly url: string;
  /** Returns the digest of the tag that the database has on a copy of the disk. */
  tagOn(copy: string): Promise<string | undefined>;
}

async function cutPower(
  context: TestContext,
  fileSystem: PowerFileSystem,
  openOn?: (disk: Disk) => Promise<Database>,
): Promise<void> {
  let step = 'the disk is made';
  let exit: NodeJS.Timeout | undefined;
  using end = new DisposableStack();
  const watch = setTimeout(() => {
    const processes = execFileSync('ps', ['-eo', 'pid,stat,wchan:32,etimes,args']).toString();
    const waiting = processes.split('\n').filter(line => /^\s*\d+ D/.test(line));
    context.diagnostic([`it hangs while ${step}; blocked processes:`, ...waiting].join('\n'));
    // A process that waits for a disk cannot be killed, and this one would wait for its end.
    exit = setTimeout(() => process.exit(1), 20_000);
  }, limits.timeout - 10_000);
  end.defer(() => {
    clearTimeout(watch);
    clearTimeout(exit);
  });
  await using disk = await makePowerDisk(fileSystem);
  const place = join(disk.path, 'store');
  await mkdir(join(place, 'old'), { recursive: true });
  await writeFile(join(place, 'old/file'), 'of a site that was set up before');
  makeSynchronous(place);
  step = 'the servers start';
  await using store = await startObjectStore({ place });
  const bucket = await store.createBucket();
  await using database = await openOn?.(disk);
  await using sluice = await startSluice({
    config: administered,
    env: {
      ...store.env,
      ...(database && { SLUICE_DATABASE: database.url }),
      SLUICE_CONTENT: `s3://${bucket}/site`,
      SLUICE_S3_ENDPOINT: store.url,
      SLUICE_S3_REGION: 'us-east-1',
      SLUICE_S3_PATH_STYLE: 'true',
    },
  });
  const repository = new Repository(sluice, name);
  for (let at = 0; at < cuts; at += 1) {
    // A large one is uploaded in parts.
    const layer = pattern(at === 0 ? largeBytes : 20_000, `layer ${at}`);
    const config = Buffer.from(JSON.stringify({ version: at }));
    step = `image ${at} is pushed`;
    for (const blob of [layer, config]) expect(await repository.pushBlob(blob), 201);
    const { headers } = expect(await repository.pushManifest('latest', config, [layer]), 201);
    const manifest = headers['docker-content-digest'];
    assert.ok(typeof manifest === 'string');
    step = `disk ${at} is copied`;
    const copy = await disk.copy();
    step = `copy ${at} is mounted`;
    await using opened = await copy.open();
    step = `copy ${at} is read`;
    if (database) assert.equal(await database.tagOn(opened.path), manifest, `cut ${at}`);
    const content = await storedContent(join(opened.path, 'store'), bucket);
    for (const digest of [digestOf(layer), digestOf(config), manifest]) {
      assert.ok(content.has(digest), `cut ${at}: ${digest} is not in ${[...content].join()}`);
    }
    step = `copy ${at} is unmounted`;
  }
}

/** Starts PostgreSQL on the disk, which flushes as its defaults say. */
async function openDatabase(disk: Disk): Promise<Database> {
  const parent = join(disk.path, 'postgres');
  await mkdir(parent);
  const postgres = await startPostgres({ durable: true, parent });
  const url = new URL(await postgres.createDatabase());
  const [folder = ''] = await readdir(parent);
  return {
    url: url.href,
    async tagOn(copy) {
      const directory = join(copy, 'postgres', folder);
      // It names a process that runs here.
      await rm(join(directory, 'data/postmaster.pid'));
      url.port = String(await freePort());
      const daemon = await launchPostgres(directory, url.port, ['fsync=off']);
      try {
        const rows = await openPostgres(url.href);
        const tagged = await createHostedStore(rows).tagged(name, 'latest');
        await rows.end();
        return tagged;
      } finally {
        daemon.process.kill('SIGINT');
        await daemon.ended;
      }
    },
    [Symbol.asyncDispose]: () => postgres[Symbol.asyncDispose](),
  };
}

/** Returns the digests of the objects in the store of a disk. */
async function storedContent(place: string, Bucket: string): Promise<ReadonlySet<string>> {
  await using store = await startObjectStore({ place });
  const { Contents = [] } = await store.client.send(new ListObjectsV2Command({ Bucket }));
  const digests = new Set<string>();
  for (const { Key } of Contents) {
    const { Body } = await store.client.send(new GetObjectCommand({ Bucket, Key }));
    digests.add(digestOf(Buffer.from((await Body?.transformToByteArray()) ?? [])));
  }
  return digests;
}

test('the set-up refuses file systems that write the names of files later', async () => {
  // Linux keeps this mount without wsync, but shows sync.
  await using disk = await makePowerDisk({ type: 'xfs' });
  await run('mount', ['-o', 'remount,sync,wsync', disk.path]);
  assert.throws(
    () => makeSynchronous(disk.path),
    /XFS that is mounted without wsync.*SLUICE_STORE_DIRECTORY/,
  );
  assert.throws(() => makeSynchronous('/dev/shm'), /of the type tmpfs.*SLUICE_STORE_DIRECTORY/);
});
