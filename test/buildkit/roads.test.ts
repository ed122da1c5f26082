/** Connections to a builder: mutual TLS, and through a Docker engine. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { build, connect, memoryTree, type TlsOptions } from '../../src/buildkit/index.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import {
  type Certificates,
  makeCertificates,
  makeClientCertificate,
} from '../world/certificates.ts';
import { startDocker } from '../world/docker.ts';
import { startRegistry } from '../world/registry.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { buildkitVersion } from '../world/tools.ts';
import { baseImage, failureOf } from './build-world.ts';

const read = (path: string) => readFile(path, 'utf8');

/** A certificate for a client, of the authority that made these; PEM texts. */
async function clientOf(files: Certificates) {
  const { certificate, key } = await makeClientCertificate(files);
  return { cert: await read(certificate), key: await read(key) };
}

test('TLS of both sides, by address and by name', async t => {
  await using directory = await makeTempDir('tls');
  const files = await makeCertificates(join(directory.path, 'own'), ['127.0.0.1', 'builder.test']);
  const others = await makeCertificates(join(directory.path, 'other'));
  await using buildkitd = await startBuildkitd({ tls: files });
  const ca = await read(files.authority);
  const { cert, key } = await clientOf(files);
  const options = { dockerfile: 'FROM scratch\nCOPY a /a\n', context: memoryTree({ a: 'a' }) };
  const warnings: string[] = [];
  const onWarning = (warning: Error) => warnings.push(warning.message);
  process.on('warning', onWarning);
  for (const serverName of [undefined, 'builder.test']) {
    const tls = { ca, cert, key, ...(serverName ? { serverName } : {}) };
    const client = connect(buildkitd.tcpAddress, { tls });
    t.after(() => client.close());
    assert.equal((await client.info()).version, `v${buildkitVersion}`);
    await build(client, options);
  }
  const refused: Record<string, TlsOptions | undefined> = {
    'an authority that did not sign': { ca: await read(others.authority), cert, key },
    'a certificate of another authority': { ca, ...(await clientOf(others)) },
    'no certificate': { ca },
    'another name': { ca, cert, key, serverName: 'other.test' },
    'no TLS': undefined,
  };
  for (const [why, tls] of Object.entries(refused)) {
    const client = connect(buildkitd.tcpAddress, tls ? { tls } : {});
    t.after(() => client.close());
    const error = await failureOf(build(client, options));
    assert.equal(error.kind, 'unavailable', why);
    assert.doesNotMatch(error.message, /Resolution note/);
    assert.doesNotMatch(error.message, /PRIVATE KEY/);
  }
  process.off('warning', onWarning);
  assert.deepEqual(warnings, []);
});

for (const engine of ['forky', 'trixie'] as const) {
  suite(`the builder of a Docker engine of ${engine}`, () => {
    test('builds, pushes, exports, fails and is cancelled', async t => {
      await using registry = await startRegistry({ auth: 'basic' });
      const { username, password } = registry;
      const pushed = await pushCorpus(registry, [baseImage]);
      const base = pushed.get(baseImage)?.reference ?? '';
      await using docker = await startDocker({ suite: engine, store: 'containerd' });
      const client = connect(`docker+unix://${docker.socket}`);
      t.after(() => client.close());
      const common = {
        network: 'host' as const,
        credentials: async (host: string) =>
          host === registry.host ? { username, password } : undefined,
      };
      assert.ok((await client.listWorkers()).length > 0);
      const name = `${registry.host}/out/docker:1`;
      const made = {
        ...common,
        dockerfile: `FROM ${base}\nCOPY a /a\nRUN cat /a > /b\n`,
        context: memoryTree({ a: 'from docker\n' }),
      };
      const sent: string[] = [];
      const blobs = {
        has: () => false,
        async open(blob: string) {
          sent.push(blob);
          return { write: async () => {}, commit: async () => {}, abort: async () => {} };
        },
      };
      const whole = await build(client, { ...made, exporters: [{ type: 'oci', blobs }] });
      // The manifest is last.
      assert.equal(sent.at(-1), whole.digest);
      const { digest } = await build(client, {
        ...made,
        exporters: [{ type: 'image', name, push: true }],
      });
      assert.match(digest ?? '', /^sha256:/);
      await docker.login(registry.host, registry);
      const pulled = await docker.pull(name);
      assert.equal(pulled.code, 0, pulled.stderr);
      const printed = await docker.run(name, ['cat', '/b']);
      assert.equal(printed.stdout, 'from docker\n');

      const failing = { ...common, dockerfile: `FROM ${base}\nRUN echo no; exit 3\n` };
      const error = await failureOf(build(client, failing));
      assert.deepEqual([error.kind, error.exitCode, error.source?.line], ['exec', 3, 2]);
      assert.deepEqual(error.lastLogLines, ['no']);

      const sleeping = { ...common, dockerfile: `FROM ${base}\nRUN sleep 987\n` };
      const started = Date.now();
      const late = await failureOf(build(client, sleeping, { timeoutMs: 1_500 }));
      assert.equal(late.kind, 'timeout');
      assert.ok(Date.now() - started < 60_000, 'nobody waited for it to wake');
      client.close();
      assert.equal((await failureOf(client.info())).kind, 'cancelled');
    });
  });
}

test('an old Docker engine without version, with its own store', async t => {
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, [baseImage]);
  await using docker = await startDocker({ suite: 'bookworm' });
  const client = connect(`docker+unix://${docker.socket}`);
  t.after(() => client.close());
  assert.deepEqual(await client.info(), {
    ...{ package: undefined, version: undefined, revision: undefined },
  });
  const common = { network: 'host' as const, context: memoryTree({ 'a, b': 'old\n' }) };
  const dockerfile = `FROM ${pushed.get(baseImage)?.reference}\nCOPY ["a, b", "/a"]\n`;
  await build(client, {
    ...{ ...common, dockerfile, sourceDateEpoch: 0 },
    exporters: [{ type: 'moby', name: 'built:here' }],
  });
  assert.equal((await docker.run('built:here', ['cat', '/a'])).stdout, 'old\n');

  const failing = { ...common, dockerfile: `${dockerfile}RUN echo no; exit 3\n` };
  const error = await failureOf(build(client, failing));
  assert.deepEqual([error.kind, error.exitCode], ['exec', 3]);
  assert.match(error.step ?? '', /RUN echo no/);
  assert.deepEqual(error.lastLogLines, ['no']);
  const wrong = await failureOf(build(client, { ...common, dockerfile: 'FROM a\nRUNN b\n' }));
  assert.deepEqual([wrong.kind, wrong.source], ['dockerfile', { file: 'Dockerfile', line: 2 }]);
  const missing = { ...common, dockerfile: `FROM ${registry.host}/no/such:1\n` };
  assert.equal((await failureOf(build(client, missing))).kind, 'base');
});

test('an engine that does not exist, and a server that is not an engine', async t => {
  await using registry = await startRegistry();
  const client = connect('docker+unix:///nowhere/docker.sock');
  t.after(() => client.close());
  assert.equal((await failureOf(client.info())).kind, 'unavailable');
  const wrong = connect(registry.url.replace('http', 'tcp'));
  t.after(() => wrong.close());
  assert.equal((await failureOf(wrong.info({ timeoutMs: 8_000 }))).kind, 'unavailable');
});
