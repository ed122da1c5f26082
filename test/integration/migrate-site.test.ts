/** A site on SQLite is moved to PostgreSQL with `sluice migrate`, and goes on there with all that it had. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { basic } from '../hosted/push-client.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { freePort } from '../world/free-port.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { admin, inspectHosted } from './hosted.ts';
import { assertSuccess } from './served.ts';

const image = 'cfg:full';

interface Descriptor {
  readonly digest: string;
}

suite('a site that moves to PostgreSQL', () => {
  let postgres: Postgres;
  let directory: TempDir;
  let database: string;
  let data: string;
  let port: number;
  let registry: Registry;
  let closed: Registry;
  let buildkitd: Buildkitd;
  let channels: CondaChannels;
  let sluice: Sluice;
  let dockerfile: string;

  const start = (where: string) =>
    startSluice({
      // Requests name the platform of the server by its address.
      ...{ data, port },
      config: {
        accounts: { [admin.username]: admin.password },
        buildkit: [buildkitd.address],
        builds: { syntax: 'builder' },
        channels: channels.settings,
        registries: {
          [registry.host]: { plainHttp: true },
          [closed.host]: { plainHttp: true },
        },
      },
      env: { SLUICE_DATABASE: where },
    });
  const command = (...args: string[]) =>
    sluiceCommand([...args, '--data', data], { SLUICE_DATABASE: database });

  const request = async (body: object, token?: string): Promise<ContainerResponse> => {
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(token ? { authorization: `Bearer ${token}` } : {}),
      },
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as ContainerResponse;
  };
  const build = (text: string) => request({ containerFile: Buffer.from(text).toString('base64') });
  const condaImage = (entry: string) =>
    request({
      packages: {
        type: 'CONDA',
        entries: [entry],
        condaOpts: { baseImage: `${registry.host}/debian:1` },
      },
    });

  /** Pulls all bytes as a client does; returns the digest of the manifest. */
  const pull = async ({ targetImage }: ContainerResponse): Promise<string> => {
    const fetched = async (part: string) => {
      // The name has the host of the server that answered.
      const [, path = ''] = /^[^/]+\/(.+):[^:]+$/.exec(targetImage) ?? [];
      const response = await sluice.fetch(`/v2/${path}/${part}`, { headers: { accept: '*/*' } });
      const bytes = Buffer.from(await response.arrayBuffer());
      assert.equal(response.status, 200, `${part}: ${bytes.subarray(0, 500)}`);
      return { bytes, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}` };
    };
    const root = await fetched(`manifests/${targetImage.split(':').at(-1)}`);
    const manifest = JSON.parse(root.bytes.toString()) as {
      config: Descriptor;
      layers: readonly Descriptor[];
    };
    for (const { digest } of [manifest.config, ...manifest.layers]) {
      assert.equal((await fetched(`blobs/${digest}`)).digest, digest);
    }
    return root.digest;
  };

  before(async () => {
    [postgres, registry, closed, buildkitd, channels, directory] = await Promise.all([
      startPostgres(),
      startRegistry(),
      startRegistry({ auth: 'basic' }),
      startBuildkitd(),
      startCondaChannels({
        'conda-forge': [library('1.3'), program('procps-ng', '4.0')],
        bioconda: [
          program('samtools', '1.20', { depends: ['library'] }),
          program('later', '1', { depends: ['library'] }),
        ],
      }),
      makeTempDir('migrate-site'),
    ]);
    data = directory.join('data');
    port = await freePort();
    database = await postgres.createDatabase();
    await pushDebianImage(registry, 'debian');
    await pushCorpus(closed, [image]);
    const base = (await pushCorpus(registry, ['busybox:oci', image])).get('busybox:oci')?.reference;
    dockerfile = `FROM ${base}\nRUN echo built > /made\n`;
    sluice = await start('sqlite');
  });
  after(async () => {
    await sluice?.stop();
    await Promise.all([channels, buildkitd, closed, registry].map(one => one?.stop()));
    await postgres?.[Symbol.asyncDispose]();
    await directory?.remove();
  });

  test('serves what it served: requests, builds, repositories, accounts, credentials, figures', async () => {
    const token = await newAccessToken(
      sluice,
      { name: admin.username, password: admin.password },
      'ada@example.org',
    );
    const authorized = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const entered = await sluice.fetch('/platform/credentials', {
      method: 'POST',
      headers: authorized,
      body: JSON.stringify({
        credentials: {
          provider: 'container-reg',
          keys: { registry: closed.host, userName: closed.username, password: closed.password },
        },
      }),
    });
    assert.equal(entered.status, 200, await entered.text());
    const closedBody = {
      containerImage: `${closed.host}/corpus/cfg:full`,
      platformAccessToken: token,
    };
    const plainBody = {
      containerImage: `${registry.host}/corpus/cfg:full`,
      containerConfig: { env: ['ADDED=1'] },
    };
    const responses = [
      await request(plainBody),
      await request(closedBody),
      await build(dockerfile),
      await condaImage('samtools'),
    ];
    const digests: string[] = [];
    for (const response of responses) digests.push(await pull(response));
    const builds = responses.slice(2);
    const logIn = { username: admin.username, password: admin.password };
    const pushed = (await pushCorpus({ url: sluice.url, ...logIn }, [image])).get(image);
    assert.ok(pushed);
    const { repository, tag } = pushed;
    const hosted = await inspectHosted(sluice, repository, tag);
    const headers = { ...basic(admin.username, admin.password), accept: 'text/html' };
    const page = async (path: string) => {
      const response = await sluice.fetch(path, { headers });
      assert.equal(response.status, 200, path);
      return response.text();
    };

    const pulls = async () =>
      /<h2>Pulls<\/h2>\s*<p><strong>(\d+)</.exec(await page('/view/usage'))?.[1];
    const counted = await pulls();
    assert.equal(counted, String(responses.length));

    const whileUsed = await sluiceCommand(migration('sqlite', database));
    assert.equal(whileUsed.code, 1);
    assert.match(whileUsed.stderr, /A server uses .*data\. Stop it/);
    await sluice.stop();
    await assert.rejects(start(database), /move them with 'sluice migrate/);
    const moved = await sluiceCommand(migration('sqlite', database));
    const text = assertSuccess(moved);
    assert.match(text, /\nbuilds +2 +[0-9a-f]{16}\n/);
    assert.match(text, /Both sides are equal\.\nSet SLUICE_DATABASE to the address in --to/);
    sluice = await start(database);

    assert.equal(await pulls(), counted);
    for (const [at, response] of responses.entries())
      assert.equal(await pull(response), digests[at]);
    assert.deepEqual(await inspectHosted(sluice, repository, tag), hosted);
    for (const { buildId } of builds) {
      assert.match(await page(`/view/builds/${buildId}`), /succeeded/i);
    }
    const user = await sluice.fetch('/platform/user-info', { headers: authorized });
    assert.equal(
      ((await user.json()) as { user: { email: string } }).user.email,
      'ada@example.org',
    );
    // The password in the credentials is readable, for a request that nobody made before.
    const again = { ...closedBody, containerConfig: { env: ['AGAIN=1'] } };
    await pull(await request(again));
    const known = await build(dockerfile);
    assert.equal(known.buildId, builds[0]?.buildId, 'an image is not built a second time');
  });

  test('builds a Dockerfile and a Conda image, which are pulled', async () => {
    await pull(await build(`${dockerfile}RUN echo later >> /made\n`));
    await pull(await condaImage('later'));
  });

  test('commands on the data directory work, or say what to do instead', async () => {
    const refused = async (args: string[], why: RegExp) => {
      const { code, stderr } = await command(...args);
      assert.equal(code, 1, stderr);
      assert.match(stderr, why);
    };
    assert.match(assertSuccess(await command('verify')), /0 damaged, 0 missing/);
    assert.match(assertSuccess(await command('gc')), /removed, \d+ bytes; \d+ kept/);
    await sluice.stop();
    const key = readFileSync(join(data, 'secrets.key'));
    assert.match(assertSuccess(await command('rotate-key')), /Encrypted [1-9]\d* secrets/);
    assert.notDeepEqual(readFileSync(join(data, 'secrets.key')), key);
    const copy = directory.join('copy');
    await refused(['gc', '--compact'], /in PostgreSQL.*Leave out --compact/);
    await refused(['backup', copy], /does not copy them.*pg_dump/);
    await refused(['restore', copy], /restores into SQLite only/);
    sluice = await start(database);
    await pull(await request({ containerImage: `${registry.host}/corpus/cfg:full` }));
  });

  test('moves back to SQLite', async () => {
    const served = await request({ containerImage: `${registry.host}/corpus/cfg:full` });
    const digest = await pull(served);
    await sluice.stop();
    assertSuccess(await sluiceCommand(migration(database, 'sqlite')));
    await assert.rejects(start(database), /The rows of .* are in its sluice\.db/);
    sluice = await start('sqlite');
    assert.equal(await pull(served), digest);
  });

  const migration = (...places: readonly [string, string]): string[] => {
    const [from, to] = places.map(place => (place === 'sqlite' ? `sqlite:${data}` : place));
    return ['migrate', '--from', String(from), '--to', String(to)];
  };
});
