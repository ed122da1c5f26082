/** Build options of a request, on a real BuildKit. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { baseLayer } from '../corpus/base.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { imageOf, without } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { pushSshImage } from '../world/ssh-image.ts';
import { makeSshKey } from '../world/ssh-keys.ts';
import { startSshd } from '../world/sshd.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess } from './served.ts';

interface Details {
  readonly digest: string;
  readonly succeeded: boolean;
  readonly reason?: string;
}

interface ManifestShape {
  readonly layers: readonly LayerShape[];
}

interface LayerShape {
  readonly digest: string;
  readonly mediaType: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Returns true for a layer that has the table of eStargz. */
function hasTable(layer: LayerShape | undefined): boolean {
  return layer?.annotations?.['containerd.io/snapshot/stargz/toc.digest'] !== undefined;
}

suite('options of builds', { concurrency: 1 }, () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let base: string;

  before(async () => {
    registry = await startRegistry();
    base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    buildkitd = await startBuildkitd();
    sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        builds: { cacheMounts: 'owner' },
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await buildkitd?.stop();
    await registry?.stop();
  });

  const build = async (dockerfile: string, body: object, headers = {}) => {
    const containerFile = Buffer.from(dockerfile).toString('base64');
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ containerFile, ...body }),
    });
    const { buildId } = (await response.json()) as { buildId: string };
    const path = `/v1alpha1/builds/${buildId}`;
    const log = await (await sluice.fetch(`${path}/logs?follow=true`)).text();
    const details = (await (await sluice.fetch(path)).json()) as Details;
    return { ...details, buildId, log };
  };
  const documentOf = async (repository: string, digest: string, kind: 'manifests' | 'blobs') => {
    const accept = { accept: 'application/vnd.oci.image.manifest.v1+json' };
    const url = `http://${registry.host}/v2/${repository}/${kind}/${digest}`;
    return (await fetch(url, { headers: accept })).json();
  };

  const layerTypes = {
    gzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
    zstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
    estargz: 'application/vnd.oci.image.layer.v1.tar+gzip',
  };
  for (const [mode, mediaType] of Object.entries(layerTypes)) {
    for (const force of [false, true]) {
      test(`layers in ${mode}${force ? ', those of the base too' : ''}`, async () => {
        const repository = `team/${mode}${force ? '-forced' : ''}`;
        const buildRepository = `${registry.host}/${repository}`;
        const buildCompression = { mode, level: 9, force };
        const text = `FROM ${base}\nRUN echo ${mode} > /made`;
        const make = () =>
          build(text, { buildRepository, buildCompression, freeze: true, noCache: true });
        const [{ digest, log, succeeded }, again] = [await make(), await make()];
        assert.equal(succeeded, true, log);
        // The files have the date of a build, in every form: the image is the same again.
        assert.equal(again.digest, digest);
        const { layers } = (await documentOf(repository, digest, 'manifests')) as ManifestShape;
        const [first, made] = [layers[0], layers.at(-1)];
        assert.equal(made?.mediaType, mediaType);
        assert.equal(hasTable(made), mode === 'estargz');
        assert.equal(first?.mediaType === mediaType, force || mode !== 'zstd');
        assert.equal(hasTable(first), force && mode === 'estargz');
      });
    }
  }

  test('layers of a base stay as they are, without a history and in an image built here', async () => {
    const later = await layerOf([{ name: 'later', content: 'text', mtime: 1_750_000_000 }]);
    const image = imageOf({ layers: [await baseLayer(), later], config: without('history') });
    const pusher = await Pusher.open(registry, 'later');
    await pusher.push(image, '1');
    await pusher.close();
    let below = `${registry.host}/later:1`;
    let expected = image.blobs.slice(1).map(({ digest }) => digest);
    for (const repository of ['team/once', 'team/twice']) {
      const buildRepository = `${registry.host}/${repository}`;
      // The first stage has the same layers, and more.
      const text = `FROM ${below} AS made\nRUN echo made > /made\nFROM ${below}\nCOPY --from=made /made /${repository}`;
      const { digest, log } = await build(text, { buildRepository, freeze: true });
      assert.match(log, /dated 1 layers/);
      const { layers } = (await documentOf(repository, digest, 'manifests')) as ManifestShape;
      assert.deepEqual(
        layers.slice(0, -1).map(layer => layer.digest),
        expected,
      );
      below = `${buildRepository}@${digest}`;
      expected = layers.map(layer => layer.digest);
    }
  });

  test('arguments, a stage, labels, annotations and a date, from the command line', async () => {
    await using place = await makeTempDir('options');
    const file = place.join('Dockerfile');
    const lines = [
      `FROM ${base} AS wanted`,
      'ARG GREETING=none',
      'RUN echo "said $GREETING"',
      `FROM ${base}`,
      'RUN exit 42',
    ];
    await writeFile(file, lines.join('\n'));
    const options = [
      ...['--build-arg', 'GREETING=hello you', '--target', 'wanted', '--label', 'a.b=c d'],
      ...['--annotation', 'org.opencontainers.image.source=https://x.test/'],
      ...['--created', '2026-02-03T04:05:06Z', '--push-to', `${registry.host}/options`],
    ];
    const env = { SLUICE_SERVER: sluice.url };
    const done = await sluiceCommand(['build', '-f', file, ...options, '--await', '--json'], env);
    const { buildId } = JSON.parse(assertSuccess(done)) as { buildId: string };
    const path = `/v1alpha1/builds/${buildId}`;
    assert.match(await (await sluice.fetch(`${path}/logs`)).text(), /said hello you/);
    const { digest } = (await (await sluice.fetch(path)).json()) as Details;
    const manifest = (await documentOf('options', digest, 'manifests')) as {
      annotations: Record<string, string>;
      config: { digest: string };
    };
    assert.equal(manifest.annotations['org.opencontainers.image.source'], 'https://x.test/');
    const config = (await documentOf('options', manifest.config.digest, 'blobs')) as {
      created: string;
      config: { Labels: Record<string, string> };
    };
    assert.equal(config.created, '2026-02-03T04:05:06Z');
    assert.equal(config.config.Labels['a.b'], 'c d');
    const named = await sluiceCommand(['name', '-f', file, ...options], env);
    assert.match(assertSuccess(named), new RegExp(`:${buildId.split('_')[0]}\n$`));
  });

  test('without its cache a build runs again, and its name refers to the new image', async () => {
    const dockerfile = `FROM ${base}\nRUN head -c 8 /dev/urandom > /random\n`;
    const first = await build(dockerfile, {});
    const cached = await build(dockerfile, {});
    assert.equal(cached.digest, first.digest);
    const again = await build(dockerfile, { noCache: true });
    assert.notEqual(again.digest, first.digest);
    assert.notEqual(again.buildId, first.buildId);
    assert.equal((await build(dockerfile, {})).digest, again.digest);
  });

  test('a secret is visible to its step only, and steps with another secret do not share results', async () => {
    const dockerfile = [
      `FROM ${base}`,
      'RUN --mount=type=secret,id=token cat /run/secrets/token; wc -c < /run/secrets/token > /size',
      '',
    ].join('\n');
    const secretOf = (text: string) => ({ token: Buffer.from(text).toString('base64') });
    const one = await build(dockerfile, {
      buildRepository: `${registry.host}/one`,
      secrets: secretOf('first-secret-value'),
    });
    assert.equal(one.succeeded, true, one.log);
    assert.match(one.log, /\*\*\*/);
    const two = await build(dockerfile, {
      buildRepository: `${registry.host}/two`,
      secrets: secretOf('another, which is longer'),
    });
    assert.notEqual(two.digest, one.digest);
    const without = await build(dockerfile, { buildRepository: `${registry.host}/three` });
    assert.equal(without.succeeded, false, 'it does not find the results of the others');
    const database = await Promise.all(
      ['sluice.db', 'sluice.db-wal'].map(name =>
        readFile(`${sluice.data}/${name}`, 'latin1').catch(() => ''),
      ),
    );
    const encoded = secretOf('first-secret-value').token;
    for (const text of [one.log, sluice.output(), ...database]) {
      assert.ok(!text.includes('first-secret-value') && !text.includes(encoded));
    }
  });

  test('a step logs in with the SSH key of its id, which is stored nowhere', async () => {
    await using place = await makeTempDir('options');
    const one = makeSshKey(place.join('one'), ['-t', 'ed25519']);
    const other = makeSshKey(place.join('other'), ['-t', 'rsa', '-b', '2048']);
    await using sshd = await startSshd({ one: one.publicKey, other: other.publicKey });
    const image = `${registry.host}/ssh:1`;
    await pushSshImage(buildkitd.address, base, image);
    const login = `ssh -p ${sshd.port} -o StrictHostKeyChecking=no -o BatchMode=yes root@127.0.0.1`;
    const mount = (step: string, id = 'default') =>
      `FROM ${image}\nRUN --mount=type=ssh,id=${id},required=true ${step}\n`;
    const keyOf = (text: string) => [Buffer.from(text).toString('base64')];
    const ssh = { default: keyOf(one.privateKey), second: keyOf(other.privateKey) };
    const buildRepository = `${registry.host}/ssh-made`;

    const made = await build(mount(`sh -c '${login} && ssh-add -L'`), { buildRepository, ssh });
    assert.equal(made.succeeded, true, made.log);
    assert.match(made.log, /^#\d+ [\d.]+ welcome one$/m);
    assert.ok(made.log.includes(one.publicKey) && !made.log.includes(other.publicKey), made.log);
    assert.match(sshd.output(), /Accepted publickey for root/);
    const second = await build(mount(login, 'second'), { buildRepository, ssh });
    assert.match(second.log, /^#\d+ [\d.]+ welcome other$/m);

    const missing = await build(mount(login), { buildRepository, ssh: { second: ssh.second } });
    assert.equal(missing.succeeded, false);
    assert.match(
      missing.reason ?? '',
      /requires an SSH key with the id default \(Dockerfile, line 2/,
    );

    const file = place.join('Dockerfile');
    await writeFile(file, mount(`${login} # by the command`));
    const command = (...given: readonly string[]) =>
      sluiceCommand(
        ['build', '-f', file, '--push-to', buildRepository, '--await', '--json', ...given],
        { SLUICE_SERVER: sluice.url, SSH_AUTH_SOCK: place.join('agent') },
      );
    const done = await command('--ssh', `default=${other.path}`);
    const { buildId } = JSON.parse(assertSuccess(done)) as { buildId: string };
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs`)).text();
    assert.match(log, /^#\d+ [\d.]+ welcome other$/m);
    const refusals: readonly (readonly [option: string, message: RegExp])[] = [
      ['default', /specify the file of a private key.*cannot use the SSH agent/],
      [`default=${file}`, /Dockerfile is not a private key/],
      [`default=${one.path}.pub`, /one\.pub is a public key/],
      [`default=${place.join('nowhere')}`, /ENOENT/],
    ];
    for (const [option, message] of refusals) {
      const refused = await command('--ssh', option);
      assert.equal(refused.code, 2);
      assert.match(refused.stderr, message);
    }
    const key = ['--ssh', `default=${one.path}`];
    const away = await command(...key, '--server', 'http://sluice.invalid');
    assert.match(
      away.stderr,
      /^Warning: .* SSH keys are sent to sluice\.invalid without encryption/,
    );
    assert.doesNotMatch(done.stderr, /Warning/, 'not on this machine');

    const database = await Promise.all(
      ['sluice.db', 'sluice.db-wal'].map(name =>
        readFile(`${sluice.data}/${name}`, 'latin1').catch(() => ''),
      ),
    );
    const [line = ''] = one.privateKey.split('\n').slice(2);
    for (const text of [made.log, second.log, log, sluice.output(), ...database]) {
      assert.ok(
        !text.includes(line) && !text.includes(keyOf(one.privateKey)[0]?.slice(0, 200) ?? ''),
      );
    }
  });

  test('builds of one owner share cache mounts if the operator has set it', async () => {
    const headers = { authorization: `Basic ${Buffer.from('admin:secret').toString('base64')}` };
    const mount = 'RUN --mount=type=cache,target=/cache';
    const first = await build(`FROM ${base}\n${mount} echo kept > /cache/file\n`, {}, headers);
    assert.equal(first.succeeded, true, first.log);
    const second = `FROM ${base}\n${mount} cat /cache/file\n`;
    assert.match((await build(second, {}, headers)).log, /^#\d+ [\d.]+ kept$/m);
    const { succeeded } = await build(`FROM ${base}\n${mount} cp /cache/file /\n`, {});
    assert.equal(succeeded, false, 'callers without a login share nothing');
  });
});
