/** A server with its rows in PostgreSQL. */
import assert from 'node:assert/strict';
import { copyFile, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import pg from 'pg';
import { pushCorpus } from '../corpus/corpus.ts';
import { basic } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { admin } from './hosted.ts';

const password = 'a-word-for-nobody';
const image = 'cfg:full';

suite('a server on PostgreSQL', () => {
  let postgres: Postgres;
  let directory: TempDir;
  let database: string;
  let sluice: Sluice;
  let registry: Registry;

  const start = (data: string) =>
    startSluice({
      data,
      config: { registries: { [registry.host]: { plainHttp: true } } },
      env: {
        SLUICE_DATABASE: database,
        SLUICE_ACCOUNTS: `${admin.username}:${admin.password}`,
        SLUICE_BUILDKIT: 'off',
      },
    });
  const request = () =>
    sluice.request({
      containerImage: `${registry.host}/corpus/cfg:full`,
      containerConfig: { env: ['ADDED=1'] },
    });
  const manifest = ({ targetImage }: ContainerResponse) => {
    const [, path = '', tag = ''] = /^[^/]+\/(.+):([^:]+)$/.exec(targetImage) ?? [];
    return sluice.fetch(`/v2/${path}/manifests/${tag}`, { headers: { accept: '*/*' } });
  };

  const leads = async () =>
    /^sluice_replica_leads (\d)$/m.exec(await (await sluice.fetch('/metrics')).text())?.[1];

  before(async () => {
    registry = await startRegistry();
    await pushCorpus(registry, [image]);
    postgres = await startPostgres();
    directory = await makeTempDir('postgres-site');
    database = (await postgres.createDatabase()).replace('sluice@', `sluice:${password}@`);
    sluice = await start(directory.join('data'));
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
    await postgres?.[Symbol.asyncDispose]();
    await directory?.remove();
  });

  test('hosts an image', async () => {
    const { url } = sluice;
    const { username, password: word } = admin;
    const pushed = (await pushCorpus({ url, username, password: word }, [image])).get(image);
    assert.ok(pushed);
    const headers = { ...basic(username, word), accept: '*/*' };
    const hosted = await sluice.fetch(`/v2/${pushed.repository}/manifests/${pushed.tag}`, {
      headers,
    });
    assert.equal(hosted.headers.get('docker-content-digest'), pushed.digest);
    const tags = await sluice.fetch(`/v2/${pushed.repository}/tags/list`, { headers });
    assert.deepEqual(((await tags.json()) as { tags: string[] }).tags, [pushed.tag]);
  });

  test('serves a request as before when it has started again', async () => {
    const served = await request();
    const first = await manifest(served);
    assert.equal(first.headers.get('docker-content-digest'), served.digest, await first.text());
    await sluice.stop();
    sluice = await start(sluice.data);
    const again = await manifest(served);
    assert.equal(again.headers.get('docker-content-digest'), served.digest, await again.text());
    const copy = directory.join('copy');
    await mkdir(copy);
    await copyFile(join(sluice.data, 'secrets.key'), join(copy, 'secrets.key'));
    const [, rotated] = await Promise.all([
      assert.rejects(start(directory.join('other')), /Another server uses the database/),
      sluiceCommand(['rotate-key', '--data', copy], { SLUICE_DATABASE: database }),
    ]);
    assert.equal(rotated.code, 1);
    assert.match(rotated.stderr, /Another server uses the database/);
    assert.deepEqual(await readdir(copy), ['secrets.key'], 'the key was not changed');
  });

  test('says 503 while the database is away, and goes on when it is back', async () => {
    const served = await request();
    assert.equal(await leads(), '1');
    await postgres.stop();
    // The alert for a site without a leader reads it.
    await eventually('the server says that it does not lead', async () => (await leads()) === '0');
    const response = await manifest(served);
    assert.equal(response.status, 503, await response.text());
    assert.ok(Number(response.headers.get('retry-after')) > 0);
    await assert.rejects(request(), /The database does not answer/);
    assert.equal(sluice.process.exitCode, null);
    await postgres.start();
    await eventually('the server is ready again', async () => {
      return (await sluice.fetch('/readyz')).status === 200;
    });
    const again = await manifest(served);
    assert.equal(again.headers.get('docker-content-digest'), served.digest, await again.text());
    await request();
    assert.equal(await leads(), '1');
    await eventually('the log says so', () =>
      /lock of the database is lost[\s\S]*is held again/.test(sluice.output()),
    );
    assert.ok(!sluice.output().includes(password), 'no log has the password');
  });

  test('changes nothing when another server has taken the database, and serves pulls', async () => {
    const client = new pg.Client(database);
    await client.connect();
    try {
      await client.query(
        `SELECT pg_terminate_backend(pid), pg_advisory_lock(7583190234) FROM pg_locks
         WHERE locktype = 'advisory' AND granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      );
      await eventually('the server is not ready', async () => {
        const response = await sluice.fetch('/readyz');
        return response.status === 503 && /Another server has taken/.test(await response.text());
      });
      await eventually('the log says so', () =>
        sluice.output().includes('another server has taken the database'),
      );
      assert.equal(await leads(), '0');
      assert.equal((await sluice.fetch('/readyz?for=pulls')).status, 200);
    } finally {
      await client.end();
    }
  });
});
