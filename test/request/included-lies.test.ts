/** `containerIncludes` with registries that lie, are slow, or have images that no tool makes. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { digestOf } from '../../src/oci/digest.ts';
import { postJson } from '../faults/fault-world.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import {
  emptyLayer,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../faults/scripted-upstream.ts';
import { type TarPart, tarOf } from '../sif/tar-file.ts';
import { eventually } from '../world/eventually.ts';
import { boundMs } from '../world/longest-block.ts';
import type { Sluice } from '../world/sluice.ts';
import { startWatchedSluice, type WatchedSluice } from '../world/watched-sluice.ts';

const imageType = 'application/vnd.oci.image.manifest.v1+json';
const indexType = 'application/vnd.oci.image.index.v1+json';
const layerType = 'application/vnd.oci.image.layer.v1.tar+gzip';

interface Layer {
  readonly gzip: Buffer;
  /** What the registry and the config say. Default: the truth. */
  readonly digest?: string;
  readonly size?: number;
  readonly diffId?: unknown;
  /** More of its descriptor. */
  readonly more?: object;
}

interface Platform {
  readonly os?: string;
  readonly architecture?: string;
  readonly variant?: string;
}

const amd64 = { os: 'linux', architecture: 'amd64' };
const layerOf = (...parts: readonly TarPart[]): Layer => ({ gzip: gzipSync(tarOf(parts)) });
const fileLayer = (name: string) => layerOf({ name, content: name });
const digestIn = ({ gzip, digest = digestOf(gzip) }: Layer) => digest;

suite('included images that lie', { concurrency: 1 }, () => {
  let liar: ScriptedUpstream;
  let watched: WatchedSluice;
  let sluice: Sluice;
  let repository = '';
  let count = 0;

  before(async () => {
    liar = await startScriptedUpstream();
    watched = await startWatchedSluice({
      config: {
        layers: { maxTarBytes: '4 MiB' },
        registries: { [liar.host]: { plainHttp: true } },
      },
    });
    sluice = watched.sluice;
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await liar?.stop();
  });
  beforeEach(() => {
    count += 1;
    repository = `lies/of-${count}`;
  });

  const putManifest = (tag: string, type: string, content: object) => {
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: type, ...content }));
    for (const name of [tag, digestOf(bytes)]) {
      liar.put(`${repository}/manifests/${name}`, type, bytes);
    }
    return { mediaType: type, digest: digestOf(bytes), size: bytes.length };
  };
  const putImage = (tag: string, layers: readonly Layer[], config: object = amd64, more = {}) => {
    const diffIds = layers.map(({ gzip, ...layer }) => layer.diffId ?? digestOf(gunzipSync(gzip)));
    const rootfs = { type: 'layers', diff_ids: diffIds };
    const bytes = Buffer.from(JSON.stringify({ ...config, config: {}, rootfs }));
    liar.put(`${repository}/blobs/${digestOf(bytes)}`, 'application/octet-stream', bytes);
    const descriptors = layers.map(layer => {
      const digest = digestIn(layer);
      liar.put(`${repository}/blobs/${digest}`, 'application/octet-stream', layer.gzip);
      const size = layer.size ?? layer.gzip.length;
      return { mediaType: layerType, digest, size, ...layer.more };
    });
    const configType = 'application/vnd.oci.image.config.v1+json';
    const of = { mediaType: configType, digest: digestOf(bytes), size: bytes.length };
    return putManifest(tag, imageType, { config: of, layers: descriptors, ...more });
  };
  const putIndex = (tag: string, entries: readonly (readonly [object, Platform?])[]) =>
    putManifest(tag, indexType, {
      manifests: entries.map(([entry, platform]) => ({ ...entry, platform })),
    });
  const nameOf = (tag: string) => `${liar.host}/${repository}:${tag}`;
  const ask = (base: string, includes: readonly string[], more: object = {}) =>
    postJson(`${sluice.url}/v1alpha2/container`, {
      containerImage: nameOf(base),
      containerIncludes: includes.map(nameOf),
      ...more,
    });
  const get = async (targetImage: string, route: string) => {
    const reply = await call(sluice.at(targetImage, route));
    assert.equal(reply.status, 200, reply.body.toString());
    return JSON.parse(reply.body.toString());
  };
  /** Returns the digests of the layers of each image by its architecture, with those of nested indexes. */
  const served = async (reply: Awaited<ReturnType<typeof ask>>, tag: string) => {
    assert.equal(reply.status, 200, reply.body.toString());
    const { targetImage } = JSON.parse(reply.body.toString());
    const found: Record<string, string[]> = {};
    const visit = async (reference: string): Promise<void> => {
      const { manifests, config, layers } = await get(targetImage, `manifests/${reference}`);
      for (const { digest } of manifests ?? []) await visit(digest);
      if (!config) return;
      const { architecture, variant } = await get(targetImage, `blobs/${config.digest}`);
      const name = variant ? `${architecture}/${variant}` : architecture;
      found[name] = layers.map(({ digest }: { digest: string }) => digest);
    };
    await visit(tag);
    return found;
  };

  test('other bytes under the digest of a private layer are no proof', async () => {
    const secret = fileLayer('secret');
    putImage('base', []);
    // Kept here for somebody else.
    await sluice.request({
      containerImage: nameOf('base'),
      containerConfig: { layers: [{ location: `data:${secret.gzip.toString('base64')}` }] },
    });
    const digest = digestIn(secret);
    const other =
      /'containerIncludes\[0\]': layer 1 of 1 of .* (?:is not what its image says|could not be fetched: .* not 85 as)/;
    assert.equal(secret.gzip.length, 85);
    putImage('decoy', [{ gzip: emptyLayer, digest }]);
    assertApiFault(await ask('base', ['decoy']), 400, other);
    liar.on(`HEAD /v2/${repository}/blobs/${digest}`, (_request, response) => {
      response.writeHead(200, { 'content-length': secret.gzip.length }).end();
    });
    putImage('theft', [
      {
        gzip: emptyLayer,
        digest,
        size: secret.gzip.length,
        diffId: digestOf(gunzipSync(secret.gzip)),
      },
    ]);
    for (const _ of [1, 2]) assertApiFault(await ask('base', ['theft']), 502, other);
  });

  test('a kept layer must be what the next image says, too', async () => {
    const layer = fileLayer('kept');
    putImage('base', []);
    putImage('right', [layer]);
    assert.equal((await ask('base', ['right'])).status, 200);
    putImage('wrong', [{ ...layer, diffId: `sha256:${'1'.repeat(64)}` }]);
    putImage('longer', [{ ...layer, size: layer.gzip.length + 1 }]);
    for (const tag of ['wrong', 'longer']) {
      assertApiFault(await ask('base', [tag]), 400, /layer 1 of 1 of .*(?:not what|bytes, not)/);
    }
    for (const diffId of [{ any: 'thing' }, 'x'.repeat(3_000_000), `sha512:${'1'.repeat(128)}`]) {
      putImage('strange', [{ ...layer, diffId }]);
      assertApiFault(
        await ask('base', ['strange']),
        400,
        /has no valid diff ID|does not fit its layers/,
      );
    }
    putImage('missing', [{ ...fileLayer('gone'), digest: `sha256:${'2'.repeat(64)}` }]);
    liar.on(`/${repository}/blobs/sha256:${'2'.repeat(64)}`, (_request, response) => {
      response.writeHead(404).end();
    });
    assertApiFault(
      await ask('base', ['missing']),
      400,
      /'containerIncludes\[0\]': layer 1 of 1 of .* could not be fetched: /,
    );
    // Clients ask again after a status like this one.
    putImage('down', [{ ...fileLayer('down'), digest: `sha256:${'3'.repeat(64)}` }]);
    liar.on(`/${repository}/blobs/sha256:${'3'.repeat(64)}`, (_request, response) => {
      response.writeHead(503).end();
    });
    assertApiFault(
      await ask('base', ['down']),
      502,
      /'containerIncludes\[0\]': layer 1 of 1 of .* could not be fetched: /,
    );
  });

  test('documents of many images are read once each, in turns, and not without limit', async () => {
    const architectures = Array.from({ length: 16 }, (_, at) => `arch${at}`);
    const layers = Array.from({ length: 2000 }, (_, at) => ({
      ...fileLayer(''),
      digest: `sha256:${at.toString(16).padStart(64, '0')}`,
      diffId: 0,
    }));
    const entriesOf = (tag: string, own: readonly Layer[], pad: string) =>
      architectures.map(architecture => {
        const platform = { os: 'linux', architecture };
        const image = putImage(`${tag}-${architecture}`, own, platform, { pad: { pad } });
        return [image, platform] as const;
      });
    putIndex('base', entriesOf('base', [], ''));
    const evil = Array.from({ length: 10 }, (_, at) => `evil${at}`);
    const entries = entriesOf('evil', layers, '\u0001'.repeat(100_000));
    for (const tag of evil) putIndex(tag, [...entries, [putImage(tag, []), { os: tag }]]);
    await watched.turns();
    const began = liar.requests.length;
    const reply = await ask('base', evil);
    assertApiFault(reply, 400, /too many or too large together|more than 125 layers/);
    assert.ok(liar.requests.length - began < 150, `${liar.requests.length - began} requests`);
    const { longestMs } = await watched.turns();
    assert.ok(longestMs < boundMs(150), `${longestMs} ms`);
    assertApiFault(
      await ask('base', ['evil0', 'evil1', 'evil0']),
      400,
      /'containerIncludes\[2\]': .*evil0 is an image that the list has already: name it once/,
    );
  });

  test('images of nested indexes, and without a platform, get the layers of their architecture', async () => {
    const [own, one, two] = ['own', 'amd64', 'arm64'].map(fileLayer) as [Layer, Layer, Layer];
    const arm64 = { os: 'linux', architecture: 'arm64' };
    const inner = putIndex('inner', [[putImage('base-arm64', [own], arm64), arm64]]);
    putIndex('base', [[putImage('base-amd64', [own])], [inner]]);
    putIndex('include', [
      [putImage('include-arm64', [two], arm64)],
      [putIndex('nested', [[putImage('include-amd64', [one]), amd64]])],
    ]);
    assert.deepEqual(await served(await ask('base', ['include']), 'base'), {
      amd64: [own, one].map(digestIn),
      arm64: [own, two].map(digestIn),
    });
    // One of several platforms without a name would stay without the files.
    const s390x = { os: 'linux', architecture: 's390x' };
    putIndex('three', [
      [putImage('base-amd64', [own]), amd64],
      [putImage('base-arm64', [own], arm64), arm64],
      [putImage('base-s390x', [own], s390x), s390x],
    ]);
    const platforms = { containerPlatform: 'linux/amd64,linux/arm64' };
    const without = /'containerIncludes\[0\]': .* has no image for linux\/s390x; it has: /;
    for (const more of [platforms, { ...platforms, dryRun: true }]) {
      assertApiFault(await ask('three', ['include'], more), 400, without);
    }
  });

  test('programs of a higher variant, and of another system, are not included', async () => {
    const [v6, v7] = ['v6', 'v7'].map(fileLayer) as [Layer, Layer];
    const arm = (variant: string) => ({ os: 'linux', architecture: 'arm', variant });
    const plain = { os: 'linux', architecture: 'arm' };
    putImage('base-v6', [], arm('v6'));
    putIndex('base', [
      [putImage('base-arm', [], plain), plain],
      [putImage('base-v6', [], arm('v6')), arm('v6')],
    ]);
    putImage('base-arm', [], plain);
    putIndex('both', [
      [putImage('both-v7', [v7], plain), arm('v7')],
      [putImage('both-v6', [v6], arm('v6')), arm('v6')],
    ]);
    putImage('only-v7', [v7], plain);
    for (const [base, include, layer] of [
      ['base-v6', 'both', v6],
      ['base-arm', 'both', v7],
      ['base', 'both', v6],
    ] as const) {
      const layers = Object.values(await served(await ask(base, [include]), base));
      assert.ok(layers.length > 0);
      for (const found of layers) assert.deepEqual(found, [digestIn(layer)], base);
    }
    for (const base of ['base-v6', 'base']) {
      const refused = /has no image for linux\/arm\/v6; it has: linux\/arm\./;
      assertApiFault(await ask(base, ['only-v7']), 400, refused);
    }
    putImage('linux', [fileLayer('linux')]);
    putImage('windows', [fileLayer('windows')], { ...amd64, os: 'windows' });
    const other = /has no image for linux\/amd64; it has: windows\/amd64/;
    assertApiFault(await ask('linux', ['windows']), 400, other);
    assertApiFault(await ask('windows', ['linux']), 400, /has an image for windows\/amd64/);
  });

  test('layers of one request are fetched a few at a time', async () => {
    putImage('base', []);
    const layers = Array.from({ length: 20 }, (_, at) => fileLayer(`slow${at}`));
    putImage('slow', layers);
    const open: (() => void)[] = [];
    let most = 0;
    for (const layer of layers) {
      liar.on(`GET /v2/${repository}/blobs/${digestIn(layer)}`, (_request, _response, serve) => {
        open.push(serve);
        most = Math.max(most, open.length);
        // The others of the same turn have arrived by then.
        setTimeout(() => open.shift()?.(), 30);
      });
    }
    const found = await served(await ask('base', ['slow']), 'base');
    assert.deepEqual(found, { amd64: layers.map(digestIn) });
    assert.ok(most <= 4, `${most} at once`);
  });

  test('layers that are kept count towards the limit, and a dry run fetches none', async () => {
    putImage('base', []);
    const large = (name: string) => layerOf({ name, content: Buffer.alloc(3 * 1024 ** 2) });
    const layers = ['one', 'two'].map(large);
    for (const [at, layer] of layers.entries()) putImage(`include${at}`, [layer]);
    const freeze = { freeze: true, buildRepository: `${liar.host}/frozen`, dryRun: true };
    for (const more of [freeze, { dryRun: true }]) {
      const dry = await ask('base', ['include0'], more);
      assert.equal(dry.status, 200, dry.body.toString());
    }
    assert.equal(liar.count('GET', `/${repository}/blobs/${digestIn(layers[0] as Layer)}`), 0);
    for (const tag of ['include0', 'include1']) {
      assert.equal((await ask('base', [tag])).status, 200);
    }
    assertApiFault(await ask('base', ['include0', 'include1']), 413, /layers\.maxTarBytes/);
    // What can be known without a layer is in the dry run.
    putImage('strange', [{ ...fileLayer('strange'), diffId: 'none' }]);
    const strange = await ask('base', ['strange'], { dryRun: true });
    assertApiFault(
      strange,
      400,
      /'containerIncludes\[0\]': .* has a config that does not fit its layers/,
    );
  });

  test('layers that are not at their registry, or are no gzip files of files, are refused', async () => {
    putImage('base', []);
    for (const [more, reason] of [
      [
        { mediaType: 'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip' },
        /not at its registry/,
      ],
      [
        { mediaType: 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip' },
        /not at its registry/,
      ],
      [{ urls: [`http://${liar.host}/elsewhere`] }, /not at its registry/],
      [{ mediaType: `${layerType}+encrypted` }, /only tar, gzip and zstd layers/],
      [{ mediaType: 'application/vnd.cncf.helm.chart.content.v1.tar+gzip' }, /has no image for/],
      [
        { digest: `sha512:${'1'.repeat(128)}` },
        /only tar, gzip and zstd layers with sha256 digests/,
      ],
    ] as const) {
      putImage('strange', [{ gzip: emptyLayer, more }]);
      const reply = await ask('base', ['strange']);
      assertApiFault(reply, 400, /'containerIncludes\[0\]': /);
      assertApiFault(reply, 400, reason);
    }
    assert.equal(liar.count('GET', '/elsewhere'), 0);
  });

  test('requests for more layers than clients can store are refused before a layer is fetched', async () => {
    putImage('base', []);
    const layers = Array.from({ length: 126 }, (_, at) => fileLayer(`many${at}`));
    putImage('many', layers);
    putImage('half', layers.slice(0, 63));
    putImage('other-half', layers.slice(63));
    putImage('two', layers.slice(0, 2));
    const refused = /more than 125 layers/;
    assertApiFault(await ask('base', ['many']), 400, refused);
    assertApiFault(await ask('base', ['half', 'other-half', 'two']), 400, refused);
    assert.equal(liar.count('GET', `/${repository}/blobs/${digestIn(layers[0] as Layer)}`), 0);
  });

  test('a registry that says 429, and a tag that moves, do not mix images', async () => {
    putImage('base', []);
    const [one, two] = ['first', 'second'].map(fileLayer) as [Layer, Layer];
    const first = putImage('moving', [one]);
    // The tag moves right after its manifest was sent.
    liar.on(`GET /v2/${repository}/manifests/moving`, (_request, _response, serve) => {
      serve();
      putImage('moving', [two]);
    });
    const found = await served(await ask('base', ['moving']), 'base');
    assert.equal(found.amd64?.length, 1);
    assert.ok([digestIn(one), digestIn(two)].includes(found.amd64?.[0] ?? ''));
    assert.ok(first);
    const busy = fileLayer('busy');
    putImage('busy', [busy]);
    liar.on(`/${repository}/blobs/${digestIn(busy)}`, (_request, response) => {
      response.writeHead(429, { 'retry-after': '600' }).end();
    });
    assertApiFault(await ask('base', ['busy']), 429, /'containerIncludes\[0\]': layer 1 of 1 of /);
  });

  test('a client that leaves ends the questions about its images', async () => {
    const platforms = Array.from({ length: 8 }, (_, at) => ({
      os: 'linux',
      architecture: `a${at}`,
    }));
    const imagesOf = (tag: string) =>
      platforms.map(one => {
        const image = putImage(`${tag}-${one.architecture}`, [fileLayer(tag)], one);
        return [image, one] as const;
      });
    const children = imagesOf('slow');
    putIndex('base', imagesOf('base'));
    putIndex('slow', children);
    const asked = Promise.withResolvers<void>();
    const gone = new AbortController();
    let count = 0;
    for (const [{ digest }] of children) {
      liar.on(`/${repository}/manifests/${digest}`, async (_request, _response, serve) => {
        count += 1;
        asked.resolve();
        await hasLeft;
        serve();
      });
    }
    const left = sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      signal: gone.signal,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ containerImage: nameOf('base'), containerIncludes: [nameOf('slow')] }),
    });
    const hasLeft = eventually('the server has noticed', async () =>
      (await sluice.requests()).some(({ aborted }) => aborted === true),
    );
    await asked.promise;
    gone.abort();
    await assert.rejects(left);
    await hasLeft;
    for (const _ of platforms) await ask('base', []);
    assert.equal(count, 1);
  });

  test('requests whose registry does not answer hold no other one up', async () => {
    putImage('base', []);
    putImage('quick', [fileLayer('quick')]);
    const held: (() => void)[] = [];
    const holdUp = (part: string) =>
      liar.on(part, (_request, _response, serve) => held.push(serve));
    const includes = Array.from({ length: 10 }, (_, at) => `dead${at}`);
    for (const tag of includes) {
      putImage(tag, [fileLayer(tag)]);
      holdUp(`/${repository}/manifests/${tag}`);
    }
    const dead = Array.from({ length: 10 }, () => ask('base', includes));
    await eventually('all of them wait', () => held.length >= includes.length);
    const { amd64: layers } = await served(await ask('base', ['quick']), 'base');
    assert.equal(layers?.length, 1);
    for (const tag of includes) {
      liar.on(`/${repository}/manifests/${tag}`, (_request, _response, serve) => serve());
    }
    for (const serve of held) serve();
    for (const reply of dead) assert.equal((await reply).status, 200);
  });

  test('a base that is missing, too, is no failure of the server', async () => {
    const both = { containerImage: nameOf('none'), containerIncludes: ['A B'] };
    const replies = [both, { ...both, containerIncludes: [nameOf('missing')] }, both];
    for (const body of replies) {
      const reply = await postJson(`${sluice.url}/v1alpha2/container`, body);
      assertApiFault(reply, 400, /'containerI(?:ncludes\[0\]|mage)'/);
    }
    // Waits until the log is written.
    await sluice.requests();
    assert.doesNotMatch(sluice.output(), /uncaught error|unexpected error/);
  });
});
