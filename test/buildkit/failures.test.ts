/** Reasons of failed builds, as the caller sees them. */
import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { after, before, suite, test } from 'node:test';
import { BuildError, build, connect, memoryTree } from '../../src/buildkit/index.ts';
import { startRegistry } from '../world/registry.ts';
import { type BuildWorld, failureOf, startBuildWorld } from './build-world.ts';

suite('failures', { concurrency: 2 }, () => {
  let world: BuildWorld;
  before(async () => {
    world = await startBuildWorld();
  });
  after(() => world?.close());

  test('a RUN that fails with an exit code', async () => {
    const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
    const dockerfile = [
      `FROM ${world.base}`,
      'RUN true',
      'RUN for i in $(seq 0 29); do echo "line $i"; done; \\',
      '  printf "ünd Schluß"; exit 42',
      '',
    ].join('\n');
    const log: string[] = [];
    const options = { dockerfile, dockerfileName: 'My.Dockerfile' };
    const error = await failureOf(world.build(options, { log }));
    assert.ok(error instanceof BuildError);
    assert.equal(error.kind, 'exec');
    assert.equal(error.exitCode, 42);
    assert.match(error.message, /did not complete successfully: exit code: 42/);
    assert.match(error.step ?? '', /^\[3\/3\] RUN for i in/);
    assert.equal(error.source?.file, 'My.Dockerfile');
    assert.equal(error.source?.line, 3);
    assert.match(error.source?.text ?? '', /^RUN for i/);
    assert.deepEqual(error.lastLogLines, [...lines.slice(-19), 'ünd Schluß']);
    assert.match(log.join(''), /#\d+ \d\.\d{3} line 29\n/);
    assert.match(log.join(''), /ERROR: process .* exit code: 42\n/);
  });

  test('a RUN whose program does not exist', async () => {
    const error = await failureOf(world.build({ dockerfile: `FROM ${world.base}\nRUN nothere\n` }));
    assert.deepEqual([error.kind, error.exitCode], ['exec', 127]);
  });

  test('a line that is not an instruction', async () => {
    const dockerfile = `FROM ${world.base}\n\nRUNN true\n`;
    const error = await failureOf(world.build({ dockerfile }));
    assert.equal(error.kind, 'dockerfile');
    assert.match(error.message, /unknown instruction: RUNN/);
    assert.deepEqual(error.source, { file: 'Dockerfile', line: 3, text: 'RUNN true' });
    assert.deepEqual(error.lastLogLines, []);
  });

  test('an empty Dockerfile, and a target that does not exist', async () => {
    assert.equal((await failureOf(world.build({ dockerfile: '' }))).kind, 'dockerfile');
    const missing = world.build({ dockerfile: `FROM ${world.base}\n`, target: 'none' });
    assert.equal((await failureOf(missing)).kind, 'dockerfile');
  });

  test('a COPY of a file that does not exist', async () => {
    const dockerfile = `FROM ${world.base}\nCOPY nothere /\n`;
    const error = await failureOf(world.build({ dockerfile, context: memoryTree({ a: 'a' }) }));
    assert.equal(error.kind, 'dockerfile');
    assert.match(error.message, /nothere/);
    assert.equal(error.source?.line, 2);
  });

  test('a base image that does not exist, and one whose registry does not exist', async () => {
    for (const name of [`${world.registry.host}/no/such:1`, '127.0.0.1:1/away:1']) {
      const error = await failureOf(world.build({ dockerfile: `# hi\nFROM ${name}\nRUN true\n` }));
      assert.equal(error.kind, 'base', error.message);
      assert.match(error.message, new RegExp(name));
      assert.equal(error.source?.line, 2);
    }
  });

  test('a base image with a missing layer', async () => {
    await using registry = await startRegistry();
    const name = `${registry.host}/broken:1`;
    await world.build({
      dockerfile: 'FROM scratch\nCOPY a /a\n',
      context: memoryTree({ a: 'a layer that goes' }),
      exporters: [{ type: 'image', name, push: true }],
    });
    const manifest = await fetch(`${registry.url}/v2/broken/manifests/1`, {
      headers: { accept: 'application/vnd.oci.image.manifest.v1+json' },
    }).then(response => response.json() as Promise<{ layers: { digest: string }[] }>);
    for (const { digest } of manifest.layers) {
      const blob = `${registry.url}/v2/broken/blobs/${digest}`;
      assert.equal((await fetch(blob, { method: 'DELETE' })).status, 202);
    }
    await using fresh = await startBuildWorld();
    const dockerfile = `FROM ${name}\nCOPY b /b\n`;
    const error = await failureOf(fresh.build({ dockerfile, context: memoryTree({ b: 'b' }) }));
    assert.equal(error.kind, 'base', error.message);
  });

  test('a push to an unavailable registry', async () => {
    const error = await failureOf(
      world.build({
        dockerfile: `FROM ${world.base}\n`,
        exporters: [{ type: 'image', name: '127.0.0.1:1/away:1', push: true }],
      }),
    );
    assert.equal(error.kind, 'push');
    assert.match(error.message, /connection refused/);
  });

  test('a required secret is missing', async () => {
    const dockerfile = `FROM ${world.base}\nRUN --mount=type=secret,id=nope,required=true true\n`;
    const error = await failureOf(world.build({ dockerfile }));
    assert.equal(error.kind, 'other');
    assert.match(error.message, /secret nope: not found/);
  });

  test('a secret with a colour inside does not appear in an error', async () => {
    const show = `s=$(cat /run/secrets/s); printf '%s\\033[31m%s\\n' "\${s%-open}" -open`;
    const dockerfile = `FROM ${world.base}\nRUN --mount=type=secret,id=s ${show}; exit 1\n`;
    const error = await failureOf(world.build({ dockerfile, secrets: { s: 'sesame-open' } }));
    assert.deepEqual(error.lastLogLines, ['***']);
  });

  test('a secret does not appear in any part of an error', async () => {
    const dockerfile = `FROM ${world.base}\nRUN --mount=type=secret,id=s cat /run/secrets/s; echo; : sesame-open; exit 1\n`;
    const secrets = { s: 'sesame-open\nsecond-line' };
    const error = await failureOf(world.build({ dockerfile, secrets }));
    assert.deepEqual(error.lastLogLines, ['***', '***']);
    assert.doesNotMatch(JSON.stringify({ ...error, text: error.message }), /sesame|second/);
    assert.doesNotMatch(String(error.stack), /sesame|second/);
  });

  test('an exporter, an entitlement and a platform that the builder does not support', async () => {
    const dockerfile = `FROM ${world.base}\nRUN true\n`;
    const started = Date.now();
    const exporters = [{ type: 'moby' as const, name: 'x' }];
    assert.equal((await failureOf(world.build({ dockerfile, exporters }))).kind, 'other');
    const entitlements = ['security.insecure'];
    assert.equal((await failureOf(world.build({ dockerfile, entitlements }))).kind, 'other');
    const platforms = ['linux/none/none/none'];
    assert.equal((await failureOf(world.build({ dockerfile, platforms }))).kind, 'other');
    // Each wait would take 5 s.
    assert.ok(Date.now() - started < 15_000, 'the progress of no build was waited for');
  });

  test('a file of the context that cannot be read', async () => {
    const tree = memoryTree({ file: 'x' });
    const context = {
      ...tree,
      // biome-ignore lint/correctness/useYield: it fails before there is anything
      async *read(): AsyncGenerator<Uint8Array> {
        throw new Error('the disk is gone');
      },
    };
    const dockerfile = `FROM ${world.base}\nCOPY file /\n`;
    const error = await failureOf(world.build({ dockerfile, context }));
    assert.equal(error.kind, 'session');
    assert.match(error.message, /the disk is gone/);
  });

  test('a sink that fails, and one that cannot be opened', async () => {
    const broken = () =>
      new Writable({ write: (_chunk, _encoding, callback) => callback(new Error('no space')) });
    const closed = () => Promise.reject(new Error('no space'));
    for (const sink of [broken, closed]) {
      const error = await failureOf(
        world.build({ dockerfile: `FROM ${world.base}\n`, exporters: [{ type: 'tar', sink }] }),
      );
      assert.equal(error.kind, 'session');
      assert.match(error.message, /no space/);
    }
  });

  test('a progress listener that throws', async () => {
    const dockerfile = `FROM ${world.base}\nRUN sleep 20\n`;
    const onProgress = () => {
      throw new RangeError('of the listener');
    };
    const error = await failureOf(world.build({ dockerfile }, { onProgress }));
    assert.ok(error instanceof RangeError);
  });

  test('invalid options', async () => {
    assert.throws(() => connect('http://127.0.0.1:1'), TypeError);
    assert.throws(() => connect('tcp://127.0.0.1'), TypeError);
    assert.throws(() => connect('unix:///x', { tls: { ca: '' } }), TypeError);
    assert.throws(() => memoryTree({ '../x': '' }), TypeError);
  });

  test('no builder at the address', async t => {
    const client = connect('unix:///nowhere/buildkitd.sock');
    t.after(() => client.close());
    const started = Date.now();
    assert.equal((await failureOf(client.info())).kind, 'unavailable');
    const error = await failureOf(build(client, { dockerfile: 'FROM scratch\n' }));
    assert.equal(error.kind, 'unavailable');
    assert.match(error.message, /unix:\/\/\/nowhere\/buildkitd.sock/);
    assert.ok(Date.now() - started < 8_000, 'no time-out was waited for');
  });
});
