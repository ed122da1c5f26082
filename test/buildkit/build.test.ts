/** Results of builds: images, archives, caches. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Writable } from 'node:stream';
import { after, before, suite, test } from 'node:test';
import { extract } from 'tar-stream';
import { memoryTree } from '../../src/buildkit/index.ts';
import { type BuildWorld, failureOf, type Manifest, startBuildWorld } from './build-world.ts';

suite('build', { concurrency: 2 }, () => {
  let world: BuildWorld;
  before(async () => {
    world = await startBuildWorld();
  });
  after(() => world?.close());

  const image = (repository: string) => `${world.registry.host}/${repository}`;

  test('COPY and RUN, pushed under two names', async () => {
    const result = await world.build({
      dockerfile: `FROM ${world.base}\nARG WHO\nCOPY hello /hello\nRUN cat /hello > /copy && echo $WHO >> /copy\n`,
      context: memoryTree({ hello: 'Hello\n' }),
      buildArgs: { WHO: 'world' },
      labels: { purpose: 'test' },
      exporters: [
        { type: 'image', name: [image('plain:1'), image('plain:2')], push: true, attrs: {} },
      ],
    });
    assert.equal(result.descriptor?.digest, result.digest);
    assert.deepEqual(result.names, [image('plain:1'), image('plain:2')]);
    assert.deepEqual(result.steps, { total: 3, cached: 0 });
    const manifest = await world.manifest('plain', '2');
    assert.equal(manifest.config.digest, result.configDigest);
    assert.equal(manifest.mediaType, result.descriptor?.mediaType);
    const config = await fetch(
      `${world.registry.url}/v2/plain/blobs/${manifest.config.digest}`,
    ).then(response => response.json());
    assert.equal(
      (config as { config: { Labels: Record<string, string> } }).config.Labels.purpose,
      'test',
    );
  });

  test('a target stage, and a build without an exporter', async () => {
    const dockerfile = `FROM ${world.base} AS first\nRUN echo one\nFROM first\nRUN false\n`;
    const result = await world.build({ dockerfile, target: 'first' });
    assert.equal(result.digest, undefined);
    assert.equal((await failureOf(world.build({ dockerfile }))).kind, 'exec');
  });

  test('a build for two platforms makes an index', async () => {
    const result = await world.build({
      dockerfile: 'FROM scratch\nARG TARGETARCH\nCOPY $TARGETARCH /file\n',
      context: memoryTree({ amd64: 'one', arm64: 'two' }),
      platforms: ['linux/amd64', 'linux/arm64'],
      exporters: [{ type: 'image', name: image('multi:1'), push: true }],
    });
    assert.equal(result.descriptor?.mediaType, 'application/vnd.oci.image.index.v1+json');
    const { manifests = [] } = await world.manifest('multi', '1');
    assert.deepEqual(
      manifests.map(({ platform }) => platform),
      [
        { architecture: 'amd64', os: 'linux' },
        { architecture: 'arm64', os: 'linux' },
      ],
    );
  });

  test('named contexts: files, and an image in place of another image', async () => {
    const { files } = await buildTar({
      dockerfile: 'FROM base\nCOPY --from=more note /note\nCOPY --from=base /bin/busybox /copy\n',
      namedContexts: {
        more: memoryTree({ note: 'noted', unused: 'x' }),
        base: `docker-image://${world.base}`,
      },
    });
    assert.equal(files.get('note'), 'noted');
    assert.ok(files.has('copy'));
  });

  test('builds with the same file names, sizes and times do not mix', async () => {
    const dockerfile = 'FROM scratch\nCOPY file /file\n';
    for (const content of ['AAAA', 'BBBB', 'CCCC']) {
      const { files } = await buildTar({ dockerfile, context: memoryTree({ file: content }) });
      assert.equal(files.get('file'), content);
    }
  });

  test('a secret is available to its step and absent from the image', async () => {
    const { files } = await buildTar({
      dockerfile: [
        `FROM ${world.base}`,
        'RUN --mount=type=secret,id=token tr a-z A-Z < /run/secrets/token > /upper',
        'RUN --mount=type=secret,id=bytes wc -c < /run/secrets/bytes > /count',
        '',
      ].join('\n'),
      secrets: { token: 'hidden', bytes: new Uint8Array([0, 255, 10]) },
    });
    assert.equal(files.get('upper'), 'HIDDEN');
    assert.equal(files.get('count')?.trim(), '3');
    assert.ok(!files.has('run/secrets/token') || files.get('run/secrets/token') === '');
    assert.ok(![...files.values()].includes('hidden'));
  });

  test('one build exports an OCI archive and an image', async () => {
    const parts: Buffer[] = [];
    const result = await world.build({
      dockerfile: `FROM ${world.base}\nRUN echo x > /x\n`,
      exporters: [
        {
          ...{ type: 'image', name: image('both:1'), push: true },
          ...{ compression: 'zstd', forceCompression: true },
        },
        { type: 'oci', sink: () => collector(parts), name: 'both:1' },
      ],
    });
    const files = await untar(Buffer.concat(parts));
    const index = JSON.parse(files.get('index.json') ?? '{}');
    assert.equal(index.manifests[0].digest, result.digest);
    const { layers } = await world.manifest('both', '1');
    assert.match(layers.at(-1)?.mediaType ?? '', /zstd/);
  });

  test('an image arrives blob by blob, without those that are here', async () => {
    const { layers: ofBase } = await world.manifest('corpus/busybox', 'oci');
    const here = new Set(ofBase.map(({ digest }) => digest));
    const blobs = new Map<string, Buffer>();
    const result = await world.build({
      dockerfile: `FROM ${world.base}\nRUN dd if=/dev/urandom of=/big bs=1M count=5 2>/dev/null\n`,
      exporters: [
        {
          type: 'oci',
          blobs: {
            has: digest => here.has(digest),
            async open(digest) {
              const parts: Buffer[] = [];
              return {
                write: async bytes => void parts.push(Buffer.from(bytes)),
                commit: async () => void blobs.set(digest, Buffer.concat(parts)),
                abort: async () => {},
              };
            },
          },
          attrs: { compression: 'zstd' },
        },
      ],
    });
    assert.equal(result.descriptor?.digest, result.digest);
    const manifest = JSON.parse(blobs.get(result.digest ?? '')?.toString() ?? '') as Manifest;
    assert.equal(manifest.layers.length, ofBase.length + 1);
    const sent = [result.digest, manifest.config.digest, manifest.layers.at(-1)?.digest];
    assert.deepEqual([...blobs.keys()].sort(), sent.sort());
    for (const [digest, bytes] of blobs) {
      assert.equal(digest, `sha256:${createHash('sha256').update(bytes).digest('hex')}`);
    }
  });

  test('a large export waits for a slow sink', async () => {
    let bytes = 0;
    await world.build({
      dockerfile: `FROM ${world.base}\nRUN dd if=/dev/urandom of=/big bs=1M count=24 2>/dev/null\n`,
      exporters: [
        {
          type: 'tar',
          sink: () =>
            new Writable({
              highWaterMark: 1024,
              write(chunk: Buffer, _encoding, callback) {
                bytes += chunk.length;
                setTimeout(callback, 1);
              },
            }),
        },
      ],
    });
    assert.ok(bytes > 24 * 1024 * 1024);
  });

  test('with a date, every build has the same digest', async () => {
    const options = {
      dockerfile: `FROM ${world.base}\nRUN date +%N > /dev/null && echo x > /x\n`,
      sourceDateEpoch: 1,
      noCache: true,
      exporters: [{ type: 'image' as const, name: image('dated:1'), push: true }],
    };
    const one = await world.build(options);
    const other = await world.build(options);
    assert.equal(one.digest, other.digest);
    assert.deepEqual(other.steps, { total: 2, cached: 1 }, 'only the base was there');
  });

  test('a cache in a registry serves a builder without its own cache', async () => {
    const cache = { type: 'registry' as const, ref: image('cache:1') };
    const missing = { type: 'registry' as const, ref: image('cache:none') };
    const options = { dockerfile: `FROM ${world.base}\nRUN echo cached > /x\n` };
    await world.build({ ...options, cacheExports: [cache], cacheImports: [missing] });
    await using fresh = await startBuildWorld();
    const result = await fresh.build({
      ...options,
      cacheImports: [cache],
      exporters: [{ type: 'image', name: image('from-cache:1'), push: true }],
    });
    assert.equal(result.steps.cached, 1);
  });

  test('a warning of the frontend is reported', async () => {
    const result = await world.build({ dockerfile: `from ${world.base}\nRUN true\n` });
    assert.deepEqual(
      result.warnings.map(({ line, short }) => [line, short.split(':')[0]]),
      [[1, 'ConsistentInstructionCasing']],
    );
  });

  async function buildTar(options: Parameters<BuildWorld['build']>[0]) {
    const parts: Buffer[] = [];
    const exporters = [{ type: 'tar' as const, sink: () => collector(parts) }];
    const result = await world.build({ ...options, exporters });
    return { ...result, files: await untar(Buffer.concat(parts)) };
  }
});

function collector(parts: Buffer[]): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, callback) {
      parts.push(chunk);
      callback();
    },
  });
}

async function untar(archive: Buffer): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const unpacked = extract();
  unpacked.end(archive);
  for await (const entry of unpacked) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(chunk as Buffer);
    files.set(entry.header.name, Buffer.concat(chunks).toString());
  }
  return files;
}
