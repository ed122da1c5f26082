/** Every shape of image passes through Sluice correctly, byte for byte. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { bytesOf, type Descriptor, mediaTypes, sha256 } from '../corpus/content.ts';
import { corpusNames, type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import {
  assertSuccess,
  baseAnnotations,
  byDigest,
  chainOf,
  change,
  injected,
  plainRegistries,
} from './served.ts';

const isIndex = (type: string) => type === mediaTypes.ociIndex || type === mediaTypes.dockerList;
// Images without anything to change: artifacts, and indexes without available images.
const untouched: readonly string[] = [
  ...['artifact:oras11', 'artifact:sif', 'artifact:helm', 'artifact:referrer'],
  ...['artifact:directory', 'artifact:plugin'],
  'multi:empty',
];
// Blobs that the registry does not have.
const gapped: readonly string[] = ['odd:foreign', 'odd:missing-layer'];

interface Document {
  readonly mediaType?: string;
  readonly config?: Descriptor;
  readonly layers?: readonly Descriptor[];
  readonly manifests?: readonly Descriptor[];
  readonly annotations?: Readonly<Record<string, string>>;
}

interface Config {
  readonly config?: Readonly<Record<string, unknown>> | null;
  readonly rootfs?: { readonly diff_ids: readonly string[] };
  readonly history?: readonly { empty_layer?: boolean }[];
}

suite('corpus', () => {
  let registry: Registry;
  let sluice: Sluice;
  let pushed: Map<string, Pushed>;
  const responses = new Map<string, ContainerResponse>();
  // Images share many layers. skopeo pulls all blobs of each image below.
  const checkedBlobs = new Set<string>();

  before(async () => {
    registry = await startRegistry({ schema1: true });
    pushed = await pushCorpus(registry, [...corpusNames(), 'schema1:latest']);
    sluice = await startSluice({ config: plainRegistries(registry.host) });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
  });

  const known = (name: string): Pushed => {
    const found = pushed.get(name);
    assert.ok(found, name);
    return found;
  };
  const request = (name: string, config: object | undefined = change) =>
    sluice.request({
      containerImage: known(name).reference,
      ...(config === undefined ? {} : { containerConfig: config }),
    });

  for (const name of corpusNames()) {
    test(name, async () => {
      const image = known(name);
      const response = await request(name);
      responses.set(name, response);
      const isUntouched = untouched.includes(name);
      assert.equal(response.digest === image.digest, isUntouched);
      const seen = await walk(sluice, response);
      assert.equal(seen.root.mediaType, image.mediaType);
      checkWarnings(name, response, seen);
      const originals = new Map(
        [image.image.root, ...image.image.children, ...image.image.blobs].map(content => [
          content.digest,
          content,
        ]),
      );
      for (const { digest, bytes } of seen.documents) {
        const original = originals.get(digest);
        if (original) assertBytes(bytes, bytesOf(original), digest);
      }
      const before = await walkOriginal(image);
      assert.equal(seen.images.length, before.length, 'the same images are there');
      for (const [at, one] of seen.images.entries()) {
        const base = before[at];
        assert.ok(base);
        if (isUntouched || one.isAttestation) assert.deepEqual(one.manifest, base.manifest);
        else checkChanged(one, base, image.reference);
      }
      for (const one of seen.images) {
        for (const blob of [one.manifest.config, ...(one.manifest.layers ?? [])]) {
          if (!blob || (checkedBlobs.has(blob.digest) && !(name in notCopied))) continue;
          await checkBlob(sluice, response, blob, name);
          checkedBlobs.add(blob.digest);
        }
      }
    });
  }

  test('without a containerConfig every root keeps its bytes', async () => {
    for (const [name, image] of pushed) {
      if (name.startsWith('schema1')) continue;
      for (const reference of [image.reference, byDigest(image)]) {
        const response = await sluice.request({ containerImage: reference });
        assert.equal(response.digest, image.digest, name);
        assert.equal(response.warnings, undefined, name);
        const served = await fetch(sluice.at(response.targetImage, `manifests/${image.digest}`));
        assert.equal(sha256(Buffer.from(await served.arrayBuffer())), image.digest, name);
        assert.equal(served.headers.get('content-type'), image.mediaType, name);
      }
    }
  });

  test('Docker schema 1 is refused with a sentence', async () => {
    for (const config of [change, undefined]) {
      await assert.rejects(
        request('schema1:latest', config),
        /400: .*schema 1 format.*push it again/,
      );
    }
  });

  test('an image for another platform than the requested one is refused', async () => {
    const asked = { containerImage: known('multi:arm64only').reference };
    await assert.rejects(
      sluice.request({ ...asked, containerPlatform: 'linux/amd64' }),
      /400: .*has no image for linux\/amd64; it has: linux\/arm64/,
    );
    const response = await sluice.request({ ...asked, containerPlatform: 'linux/arm64' });
    assert.equal(response.digest, known('multi:arm64only').image.children[0]?.digest);
  });

  test('an index serves several platforms at once if it has all of them', async () => {
    const containerPlatform = 'linux/arm64, linux/amd64';
    const ask = (name: string) =>
      sluice.request({ containerImage: known(name).reference, containerPlatform });
    assert.equal((await ask('multi:index')).digest, known('multi:index').digest);
    await assert.rejects(ask('busybox:oci'), /has no image for linux\/arm64; it has: linux\/amd64/);
  });

  test('an inspection without a platform is for linux/amd64, and names the parameter', async () => {
    const inspect = async (name: string, query: string) => {
      const response = await sluice.fetch(`/v1alpha1/inspect${query}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ containerImage: known(name).reference }),
      });
      return { status: response.status, text: await response.text() };
    };
    for (const query of ['', '?platform=', '?platform=%20']) {
      const { status, text } = await inspect('multi:index', query);
      assert.deepEqual([status, JSON.parse(text).container.config.architecture], [200, 'amd64']);
      const refused = await inspect('multi:arm64only', query);
      assert.equal(refused.status, 400);
      assert.match(
        refused.text,
        /has no image for linux\/amd64; it has: linux\/arm64\S*: choose one with \?platform=, or all/,
      );
    }
  });

  test('unknown members and numbers beyond 2^53 survive', async () => {
    const response = await request('cfg:unknown-fields');
    const { images } = await walk(sluice, response);
    const [one] = images;
    assert.ok(one);
    assert.deepEqual((one.manifest as Record<string, unknown>)['x.unknown'], { kept: true });
    for (const part of ['9007199254740993', '1e400', '"x.exact":1.10']) {
      assert.ok(one.configText.includes(part), part);
    }
    assert.match(one.configText, /"x\.unknown":\{"deep":\[null,\{"a":""\}\]\}/);
  });

  test('a repeated request has the same digest, also on a server with other data', async () => {
    await using other = await startSluice({ config: plainRegistries(registry.host) });
    for (const [name, first] of responses) {
      assert.equal((await request(name)).digest, first.digest, name);
      const fromOther = await other.request({
        containerImage: known(name).reference,
        containerConfig: change,
      });
      assert.equal(fromOther.digest, first.digest, name);
    }
    assert.equal(responses.size, corpusNames().length);
  });

  test('skopeo copies all images', async () => {
    await using root = await openRoot('forky');
    for (const [name, { targetImage, digest }] of responses) {
      const into = `/tmp/${name.replace(':', '-')}`;
      const result = await root.exec([
        ...['skopeo', 'copy', '--all', '--src-tls-verify=false'],
        ...[`docker://${targetImage}`, `dir:${into}`],
      ]);
      const [why, wording] = notCopied[name] ?? [];
      if (wording !== undefined) {
        assert.notEqual(result.code, 0, `${name} was copied although ${why}`);
        assert.match(result.stderr, wording, name);
        continue;
      }
      assertSuccess(result, name);
      const manifest = await readFile(join(root.directory, into, 'manifest.json'));
      assert.equal(sha256(manifest), digest, name);
    }
  });
});

// skopeo cannot copy these.
const notCopied: Readonly<Record<string, readonly [why: string, wording: RegExp]>> = {
  'attest:sparse': ['children are missing', /manifest unknown/],
  'attest:nested': ['it knows no nested index', /manifest list instead of/],
  'odd:missing-layer': ['a layer is missing', /blob unknown|404/i],
  'odd:foreign': ['a layer is elsewhere', /refused|404|unknown/],
  'odd:wrong-size': ['a layer has another size', /502|Bad Gateway|unexpected|cannot deliver/i],
};

interface ServedImage {
  readonly digest: string;
  readonly manifest: Document;
  readonly type: string;
  readonly configText: string;
  readonly isAttestation: boolean;
}

interface Seen {
  readonly root: { mediaType: string };
  readonly documents: { digest: string; bytes: Buffer }[];
  readonly images: ServedImage[];
}

type Fetch = (kind: 'manifests' | 'blobs', digest: string) => Promise<Served | undefined>;
interface Served {
  readonly bytes: Buffer;
  readonly type: string;
}

/** Returns every verified manifest below the root, and the config of every image. */
async function walk(sluice: Sluice, reply: ContainerResponse): Promise<Seen> {
  const get: Fetch = async (kind, digest) => {
    const response = await fetch(sluice.at(reply.targetImage, `${kind}/${digest}`));
    const bytes = Buffer.from(await response.arrayBuffer());
    if (response.status === 404) return undefined;
    assert.equal(response.status, 200, `${digest}: ${bytes}`);
    assert.equal(response.headers.get('content-length'), String(bytes.length));
    assert.equal(response.headers.get('docker-content-digest'), digest);
    return { bytes, type: response.headers.get('content-type') ?? '' };
  };
  return walkWith(get, reply.digest);
}

async function walkWith(get: Fetch, rootDigest: string): Promise<Seen> {
  const seen: Seen = { root: { mediaType: '' }, documents: [], images: [] };
  const visit = async (digest: string, from: Descriptor | undefined): Promise<void> => {
    const served = await get('manifests', digest);
    // A sparse index: what is missing is missing here too.
    if (served === undefined) return;
    const { bytes, type } = served;
    assert.equal(sha256(bytes), digest);
    if (from) {
      assert.equal(bytes.length, from.size);
      assert.equal(type, from.mediaType);
    } else {
      seen.root.mediaType = type;
    }
    seen.documents.push({ digest, bytes });
    const manifest = JSON.parse(bytes.toString()) as Document;
    if (isIndex(type)) {
      for (const entry of manifest.manifests ?? []) await visit(entry.digest, entry);
      return;
    }
    const { config } = manifest;
    assert.ok(config);
    const found = await get('blobs', config.digest);
    assert.ok(found, `the config ${config.digest} is there`);
    assert.equal(sha256(found.bytes), config.digest);
    assert.equal(found.bytes.length, config.size);
    if (config.data !== undefined) assert.equal(config.data, found.bytes.toString('base64'));
    seen.documents.push({ digest: config.digest, bytes: found.bytes });
    const annotations = (from?.annotations ?? {}) as Record<string, string>;
    seen.images.push({
      digest,
      manifest,
      type,
      configText: found.bytes.toString(),
      isAttestation: annotations['vnd.docker.reference.type'] === 'attestation-manifest',
    });
  };
  await visit(rootDigest, undefined);
  return seen;
}

async function walkOriginal({ image }: Pushed): Promise<ServedImage[]> {
  const contents = [image.root, ...image.children, ...image.blobs];
  const isGone = (digest: string) => image.gone?.some(content => content.digest === digest);
  const { images } = await walkWith(async (_kind, digest) => {
    const content = contents.find(one => one.digest === digest);
    if (content === undefined || isGone(digest)) return undefined;
    return { bytes: bytesOf(content), type: content.mediaType };
  }, image.root.digest);
  return images;
}

function checkWarnings(name: string, { warnings = [] }: ContainerResponse, { images }: Seen): void {
  const most = Math.max(0, ...images.map(({ manifest }) => manifest.layers?.length ?? 0));
  const expected = [
    ...(most > 125 ? [new RegExp(`has ${most} layers .* at most 125`)] : []),
    ...(untouched.includes(name) ? [unchangedWarning(name)] : []),
  ];
  assert.equal(warnings.length, expected.length, warnings.join());
  for (const [at, wording] of expected.entries()) assert.match(warnings[at] ?? '', wording);
}

function unchangedWarning(name: string): RegExp {
  return name === 'multi:empty'
    ? /is an index without an image to change: it is served unchanged/
    : /is an artifact, not a container image: it is served unchanged/;
}

function checkChanged(one: ServedImage, base: ServedImage, name: string): void {
  const { layers = [], config, annotations, ...rest } = one.manifest;
  const { annotations: own, layers: lower = [], config: baseConfig, ...baseRest } = base.manifest;
  assert.deepEqual(rest, baseRest, 'other members are the same');
  assert.deepEqual(Object.keys(one.manifest), Object.keys({ ...base.manifest, ...one.manifest }));
  assert.deepEqual(layers.slice(0, -1), lower, 'the layers of the base are the same');
  const isDocker = one.type === mediaTypes.dockerManifest;
  assert.deepEqual(annotations, isDocker ? own : { ...own, ...baseAnnotations(base.digest, name) });
  assert.deepEqual(layers.at(-1), {
    mediaType: isDocker ? mediaTypes.dockerLayer : `${mediaTypes.ociLayer}+gzip`,
    digest: injected.gzipDigest,
    size: injected.gzipSize,
  });
  assert.equal(config?.mediaType, baseConfig?.mediaType);
  const before = JSON.parse(base.configText) as Config;
  const after = JSON.parse(one.configText) as Config;
  assert.deepEqual(after.rootfs?.diff_ids, [
    ...(before.rootfs?.diff_ids ?? []),
    injected.tarDigest,
  ]);
  const filled = (after.history ?? []).filter(({ empty_layer }) => !empty_layer).length;
  assert.equal(filled, layers.length, 'one entry of history for each layer');
  const historyBefore = before.history ?? [];
  assert.deepEqual(after.history?.slice(0, historyBefore.length), historyBefore);
  const { Env = [], Entrypoint, Cmd, WorkingDir, ...others } = after.config ?? {};
  const {
    Env: oldEnv,
    Entrypoint: oldEntrypoint,
    Cmd: oldCmd,
    WorkingDir: _,
    ...oldOthers
  } = before.config ?? {};
  assert.deepEqual(Entrypoint, change.entrypoint);
  assert.equal(WorkingDir, change.workingDir);
  assert.deepEqual(Cmd, oldCmd);
  assert.deepEqual(others, oldOthers);
  const keptEnv = ((oldEnv ?? []) as string[]).filter(entry => !entry.startsWith('GREETING='));
  const chain = oldEntrypoint ? chainOf(oldEntrypoint as string[]) : [];
  assert.deepEqual(
    [...(Env as string[])].sort(),
    [...keptEnv, ...change.env, ...chain].sort(),
    'the environment is merged',
  );
  const untouchedMembers = Object.entries(before).filter(
    ([member]) => !['config', 'rootfs', 'history'].includes(member),
  );
  for (const [member, value] of untouchedMembers) {
    assert.ok(isDeepStrictEqual((after as Record<string, unknown>)[member], value), member);
  }
}

async function checkBlob(
  sluice: Sluice,
  reply: ContainerResponse,
  { digest, size }: Descriptor,
  name: string,
): Promise<void> {
  const url = sluice.at(reply.targetImage, `blobs/${digest}`);
  const response = await fetch(url);
  const bytes = Buffer.from(await response.arrayBuffer());
  if (gapped.includes(name) && response.status === 404) return;
  if (name === 'odd:wrong-size' && response.status === 502) {
    assert.match(String(bytes), new RegExp(`has ${size - 1} bytes for it, not ${size}`));
    return;
  }
  assert.equal(response.status, 200, `${digest}: ${response.status}`);
  assert.equal(sha256(bytes), digest);
  assert.equal(bytes.length, size, digest);
  const head = await fetch(url, { method: 'HEAD' });
  assert.equal(head.headers.get('content-length'), String(bytes.length));
}
