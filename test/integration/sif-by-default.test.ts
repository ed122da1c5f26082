/** Singularity images from a server with default settings: no repository is named, and nobody has a login. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type Apptainer, openApptainer } from '../world/apptainer.ts';
import { eventually } from '../world/eventually.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess } from './served.ts';

suite('Singularity images by default', { concurrency: 1 }, () => {
  let registry: Registry;
  let closed: Registry;
  let images: Map<string, Pushed>;
  let apptainer: Apptainer;
  let local: Sluice;
  let shared: Sluice;
  let directory: Awaited<ReturnType<typeof makeTempDir>>;
  let relay: Relay;
  let ada: string;
  let bob: string;

  const image = () => images.get('busybox:oci')?.reference ?? '';
  const administrator = { name: 'admin', password: 'secret' };

  before(async () => {
    registry = await startRegistry();
    closed = await startRegistry({ auth: 'basic' });
    images = await pushCorpus(registry, ['busybox:oci']);
    await pushCorpus(closed, ['busybox:oci']);
    apptainer = await openApptainer();
    directory = await makeTempDir('sif-by-default');
    relay = await startRelay(registry);
    const registries = {
      [registry.host]: { plainHttp: true },
      [relay.host]: { plainHttp: true },
      [closed.host]: {
        ...{ plainHttp: true, anonymous: true, username: 'tester', password: 'sesame' },
      },
    };
    const limits = { builds: { anonymous: 'off' } };
    local = await startSluice({
      config: {
        ...{ registries, limits },
        builds: { pullWait: '1s', retryAfter: '1ms' },
      },
    });
    // As behind a proxy: anonymous callers may reach it.
    shared = await startSluice({
      config: {
        ...{ registries, limits },
        trustedProxies: 1,
        accounts: { admin: 'secret' },
        access: { builds: 'open' },
      },
    });
    ada = await newAccessToken(shared, administrator, 'ada.l@example.org');
    bob = await newAccessToken(shared, administrator, 'bob@example.org');
  });
  after(async () => {
    await local?.stop();
    await shared?.stop();
    await apptainer?.remove();
    await directory?.remove();
    relay?.server.close();
    await registry?.stop();
    await closed?.stop();
  });

  const sluice = (server: Sluice, args: readonly string[], token = '') =>
    sluiceCommand(args, {
      SLUICE_SERVER: server.url,
      ...(token === '' ? {} : { SLUICE_TOKEN: token }),
    });
  let pulls = 0;
  const pull = (name: string, token = '') => {
    const file = apptainer.join('root', 'home', `image-${++pulls}.sif`);
    const env =
      token === '' ? {} : { APPTAINER_DOCKER_USERNAME: 'token', APPTAINER_DOCKER_PASSWORD: token };
    const done = apptainer.run(['pull', '--no-https', file, name], { env });
    return { file, done };
  };

  test('a command without a login gives a name, which apptainer pulls while the image is made', async () => {
    const held = image().replace(registry.host, relay.host);
    const asked = await sluice(local, ['request', held, '--env', 'A=1', '--format', 'sif']);
    const name = assertSuccess(asked).trim();
    assert.match(name, new RegExp(`^oras://${local.host}/public/sif:[0-9a-f]{32}$`));
    assert.match(asked.stderr, /Warning: The request has no --push-to, .*\/public\/sif, which/);
    assert.match(asked.stderr, /is being built\. A pull waits for it/);
    const { file, done } = pull(name);
    await eventually('apptainer waits', async () =>
      (await local.requests()).some(({ status }) => status === 307),
    );
    relay.release();
    assertSuccess(await done);
    assert.equal(
      assertSuccess(await apptainer.run(['exec', file, 'sh', '-c', 'echo $A'])).trim(),
      '1',
    );
  });

  test('the same request gives the same name at once, and --freeze keeps a Docker image', async () => {
    const held = image().replace(registry.host, relay.host);
    const again = await sluice(local, ['request', held, '--env', 'A=1', '--format', 'sif']);
    assert.match(assertSuccess(again), /\/public\/sif:/);
    assert.doesNotMatch(again.stderr, /being built/);
    const kept = await sluice(local, ['request', image(), '--env', 'A=1', '--freeze', '--await']);
    const name = assertSuccess(kept).trim();
    assert.match(name, new RegExp(`^${local.host}/public/frozen:[0-9a-f]{32}$`));
    const [, tag] = name.split(/.*:/);
    assert.equal((await local.fetch(`/v2/public/frozen/manifests/${tag}`)).status, 200);
  });

  test('a name whose build failed says so', async () => {
    // No directory can be made in a file.
    const scratch = join(local.data, 'sif');
    await rm(scratch, { recursive: true });
    await writeFile(scratch, '');
    const asked = await sluice(local, ['request', image(), '--env', 'A=2', '--format', 'sif']);
    const name = assertSuccess(asked).trim();
    const { stderr, code } = await pull(name).done;
    await rm(scratch);
    assert.notEqual(code, 0);
    assert.match(stderr, /The build of this image failed: read its log/);
    const tag = name.split(':').at(-1) ?? '';
    const unknown = await local.fetch(`/v2/public/sif/manifests/${tag.replace(/.$/, '-')}`);
    assert.equal(unknown.status, 404);
    assert.match(await unknown.text(), /has no manifest/);
  });

  test('strangers neither overwrite nor rebuild what is kept, nor name its repository, nor keep private images', async () => {
    const tag = await local.fetch('/v2/public/sif/manifests/latest', {
      method: 'PUT',
      body: '{}',
    });
    assert.equal(tag.status, 401);
    const named = ['request', image(), '--format', 'sif', '--push-to', `${local.host}/public/sif`];
    const refused = await sluice(local, named);
    assert.match(refused.stderr, /--push-to: Cannot push to .*\/public\/sif without credentials/);
    const recipe = directory.join('Dockerfile');
    await writeFile(recipe, `FROM ${image()}\n`);
    const anew = await sluice(local, ['build', '-f', recipe, '--format', 'sif', '--no-cache']);
    assert.match(anew.stderr, /--no-cache requires --push-to: others rely on/);
    const secret = image().replace(registry.host, closed.host);
    const open = await sluice(local, ['request', secret, '--format', 'sif']);
    assert.match(open.stderr, /--freeze: .* is private, .* set --push-to to your own repository/);
  });

  test('the fields of the API are those of the specification', async () => {
    const body = { containerImage: image(), format: 'sif' };
    await assert.rejects(
      local.request(body),
      /400: .*'format: sif' requires 'freeze: true', and 'buildRepository' or 'defaultRepository: true'/,
    );
    await assert.rejects(
      local.request({ ...body, freeze: true }),
      /400: .*'freeze' requires 'buildRepository': .*'defaultRepository: true'/,
    );
  });

  test('a server that others reach keeps nothing of strangers, and says what to do', async () => {
    const { code, stderr } = await sluice(shared, ['request', image(), '--format', 'sif']);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /--freeze requires --push-to: without a login, .*freezeRepository/);
  });

  test("a user's images go to repositories of the user, which others neither pull nor name", async () => {
    const args = ['request', image(), '--format', 'sif', '--await'];
    const made = await sluice(shared, args, ada);
    const name = assertSuccess(made).trim();
    assert.match(
      made.stderr,
      /Only you can pull it: .* apptainer pull --no-https image\.sif oras:/,
    );
    assert.match(
      name,
      new RegExp(`^oras://${shared.host}/users/ada-l-[0-9a-f]{16}/sif:[0-9a-f]{32}$`),
    );
    assertSuccess(await pull(name, ada).done);
    for (const token of ['', bob]) {
      const { code, stderr } = await pull(name, token).done;
      assert.notEqual(code, 0, stderr);
    }
    const repository = name.slice('oras://'.length, name.lastIndexOf(':'));
    const other = await sluice(shared, [...args, '--push-to', repository], bob);
    assert.match(other.stderr, /--push-to: Cannot push to .*users\/ada-l-/);
    assertSuccess(await sluice(shared, [...args, '--push-to', `${repository}/more`], ada));
    const own = assertSuccess(await sluice(shared, args, bob)).trim();
    assert.match(own, /users\/bob-/);
    const base = await sluice(shared, ['request', name.slice('oras://'.length)], bob);
    assert.match(base.stderr, /Cannot pull .*users\/ada-l-/);

    const path = repository.slice(shared.host.length + 1);
    const run = (args: string, token?: string) =>
      sluice(shared, ['repositories', ...args.split(' ')], token);
    const listed = async (token?: string) =>
      JSON.parse(assertSuccess(await run('list --json', token))).repositories.map(
        (one: { name: string }) => one.name,
      );
    assert.deepEqual(await listed(ada), [path, `${path}/more`]);
    assert.deepEqual(await listed(), []);
    const headers = { accept: 'text/html', authorization: `Bearer ${ada}` };
    const page = await shared.fetch('/view/repositories', { headers });
    assert.ok((await page.text()).includes(path), 'the page lists the same');
    const tag = name.slice(name.lastIndexOf(':') + 1);
    for (const token of [bob, undefined]) {
      assert.equal((await run(`tags ${path}`, token)).code, 1);
      assert.equal((await run(`delete ${path}:${tag}`, token)).code, 1);
    }
    assert.match(assertSuccess(await run(`tags ${path}`, ada)), new RegExp(`\\b${tag}\\b`));
    assertSuccess(await run(`delete ${path}:${tag}`, ada));
    assert.deepEqual(
      JSON.parse(assertSuccess(await run(`tags ${path} --json`, ada))).tags,
      [],
      'deleted',
    );
  });
});

/** A registry whose layers arrive when the test allows it. */
interface Relay {
  readonly host: string;
  readonly server: Server;
  release(): void;
}

const layerBytes = 10_000;

async function startRelay({ url }: Registry): Promise<Relay> {
  const released = Promise.withResolvers<void>();
  const server = createServer(({ url: path = '', method, headers }, response) => {
    const asked = request(new URL(path, url), { method, headers }, async from => {
      const { 'content-length': length } = from.headers;
      if (path.includes('/blobs/') && Number(length) > layerBytes) await released.promise;
      response.writeHead(from.statusCode ?? 502, from.headers);
      from.pipe(response);
    });
    asked.on('error', () => response.destroy());
    asked.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { host: `127.0.0.1:${port}`, server, release: released.resolve };
}
