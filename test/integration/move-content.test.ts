/** The content of a site is moved to a bucket with `sluice migrate`, and back. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { HeadObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { digestOf } from '../../src/oci/digest.ts';
import { basic, Repository } from '../hosted/push-client.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { accounts, admin, inspectHosted } from './hosted.ts';

interface Report {
  readonly copied: number;
  readonly kept: number;
  readonly damaged: readonly string[];
  readonly former: string;
}

const account = basic(admin.username, admin.password);

suite('content that moves', () => {
  let store: ObjectStore;
  let bucket: string;
  let directory: TempDir;
  let data: string;
  let place: string;
  /** The digest of a layer, without its algorithm. */
  let sent: string;
  let images = 0;

  const environment = () => ({
    ...store.env,
    SLUICE_S3_ENDPOINT: store.url,
    SLUICE_S3_REGION: 'us-east-1',
    SLUICE_S3_PATH_STYLE: 'true',
    SLUICE_BUILDKIT: 'off',
  });
  const start = (content: string, where = data): Promise<Sluice> =>
    startSluice({
      data: where,
      config: { accounts },
      env: { ...environment(), SLUICE_CONTENT: content },
    });
  const command = (content: string, ...args: string[]) =>
    sluiceCommand([...args, '--data', data], { ...environment(), SLUICE_CONTENT: content });
  const move = async (from: string, to: string): Promise<Report> => {
    const done = await command(from, 'migrate', '--content-to', to, '--json');
    assert.equal(done.code, 0, done.stdout + done.stderr);
    return JSON.parse(done.stdout) as Report;
  };
  /** Pushes an image with layers of these sizes; returns its tag. */
  const push = async (sluice: Sluice, sizes: readonly number[]): Promise<string> => {
    images += 1;
    const layers = sizes.map(size => randomBytes(size));
    await new Repository(sluice, 'team/app', account).pushImage(`${images}`, layers);
    return `${images}`;
  };
  /** Checks that a server with the content at that place serves all images. */
  const serves = async (content: string): Promise<void> => {
    const sluice = await start(content);
    for (let tag = 1; tag <= images; tag += 1) await inspectHosted(sluice, 'team/app', `${tag}`);
    await sluice.stop();
    const verified = await command(content, 'verify');
    assert.equal(verified.code, 0, verified.stdout + verified.stderr);
  };
  const contentPath = (hex: string) => `${data}/content/blobs/sha256/${hex.slice(0, 2)}/${hex}`;
  const keysIn = async (name: string) => {
    const { Contents = [] } = await store.client.send(new ListObjectsV2Command({ Bucket: name }));
    return Contents.map(({ Key = '' }) => Key);
  };

  before(async () => {
    store = await startObjectStore();
    bucket = await store.createBucket();
    place = `s3://${bucket}/site`;
    directory = await makeTempDir('move-content');
    data = directory.join('data');
    const sluice = await start('directory');
    await push(sluice, [100, 20 * 1024 ** 2]);
    await push(sluice, [5000, 9_000_000]);
    const { layers } = await inspectHosted(sluice, 'team/app', '2');
    sent = layers[0]?.slice('sha256:'.length) ?? '';
    const refused = await command('directory', 'migrate', '--content-to', place);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /A server uses .* Stop it/);
    await sluice.stop();
  });
  after(async () => {
    await store?.[Symbol.asyncDispose]();
    await directory?.remove();
  });

  test('an interrupted move to a bucket is continued, and completes the site there', async () => {
    // What a killed command leaves: objects, and no id.
    const there = await readFile(contentPath(sent));
    await store.client.send(
      new PutObjectCommand({ Bucket: bucket, Key: `site/blobs/sha256/${sent}`, Body: there }),
    );
    await assert.rejects(start(place), /is missing, or is not what the database refers to/);
    const { copied, kept, damaged, former } = await move('directory', place);
    assert.equal(kept, 1, 'what was there is not sent again');
    assert.equal(copied, (await keysIn(bucket)).length - 2, 'all others, beside the id');
    assert.deepEqual(damaged, []);
    assert.ok(existsSync(former));
    assert.ok(!existsSync(`${data}/content`));
    assert.deepEqual(await readdir(`${data}/bucket/tmp`), []);
    await serves(place);
    await assert.rejects(start('directory'), /is missing, or is not what the database refers to/);
    await rm(former, { recursive: true });
  });

  test('what came meanwhile moves back to a directory', async () => {
    const sluice = await start(place);
    await push(sluice, [1_500_000]);
    await sluice.stop();
    const { copied } = await move(place, 'directory');
    assert.ok(copied >= 9, `${copied} contents`);
    await serves('directory');
    await assert.rejects(start(place), /is missing, or is not what the database refers to/);
    const again = await command(place, 'migrate', '--content-to', 'directory');
    assert.equal(again.code, 1);
    assert.match(again.stderr, /is not the content of this site.*earlier run/);
  });

  test('damaged content is reported, and all other content moves', async () => {
    const bytes = randomBytes(40_000);
    const sluice = await start('directory');
    await new Repository(sluice, 'team/damaged', account).pushImage('1', [bytes]);
    await sluice.stop();
    const digest = digestOf(bytes);
    await writeFile(contentPath(digest.slice('sha256:'.length)), Buffer.alloc(40_000));
    const done = await command('directory', 'migrate', '--content-to', `${place}-two`, '--json');
    assert.equal(done.code, 1, done.stderr);
    assert.deepEqual((JSON.parse(done.stdout) as Report).damaged, [digest]);
    const server = await start(`${place}-two`);
    for (let tag = 1; tag <= images; tag += 1) await inspectHosted(server, 'team/app', `${tag}`);
    await server.stop();
  });

  test('the place of another site is refused, and nothing moves', async () => {
    const other = `s3://${bucket}/other`;
    await (await start(other, directory.join('other'))).stop();
    await store.client.send(new HeadObjectCommand({ Bucket: bucket, Key: 'other/id' }));
    const before = (await keysIn(bucket)).length;
    const done = await command(`${place}-two`, 'migrate', '--content-to', other);
    assert.equal(done.code, 1);
    assert.match(done.stderr, /belongs to another database\. Nothing was moved/);
    assert.equal((await keysIn(bucket)).length, before);
    const mixed = await command(place, 'migrate', '--content-to', place, '--to', 'sqlite:x');
    assert.equal(mixed.code, 2);
    const empty = directory.join('empty');
    await mkdir(empty);
    const lost = await sluiceCommand(
      ['migrate', '--content-to', place, '--data', empty],
      environment(),
    );
    assert.equal(lost.code, 1);
    assert.match(lost.stderr, /empty is not the data directory of a server\./);
    assert.deepEqual(await readdir(empty), []);
    const wrong = await command('directory', 'migrate', '--content-to', 'ftp://x');
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /expected directory, or s3:/);
  });
});
