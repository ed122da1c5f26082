/** A server with the builder that it starts, registries, and callers who do not trust each other. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { delimiter } from 'node:path';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { extract } from 'tar-stream';
import { manifestAccept } from '../../src/oci/media-type.ts';
import { baseLayer } from '../corpus/base.ts';
import { type Image, imageOf } from '../corpus/image.ts';
import { Pusher } from '../corpus/push.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { buildkitDirectory, requireCommand } from '../world/tools.ts';

/** Ada and Eve are users of the server. `limited` is a token of Ada for {@link limitedTo} alone. */
export type Person = 'ada' | 'limited' | 'eve' | 'stranger';

/** A build that has finished, or that the server refused. */
export interface Built {
  readonly succeeded: boolean;
  readonly log: string;
  /** Texts of the files in its image, by path; later layers replace earlier ones. */
  readonly files: ReadonlyMap<string, string>;
  /** Digests of the layers of its image. */
  readonly layers: readonly string[];
  /** Of its image. */
  readonly digest: string | undefined;
  readonly buildId: string | undefined;
  /**
   * The response to the request, log, reason of the failure, and names and texts of files: everything that the caller
   * sees.
   */
  readonly all: string;
}

export interface ApartWorld extends AsyncDisposable {
  readonly server: Sluice;
  /** Access tokens of the platform; undefined for an anonymous caller. */
  readonly tokens: Readonly<Record<Person, string | undefined>>;
  /** Everybody may pull from it and push to it. */
  readonly open: Registry;
  /** Only Ada has credentials for it. */
  readonly closed: Registry;
  /** Image of busybox. */
  readonly base: string;
  /** Builds a Dockerfile, with other fields of the request. The image has a label of its own, so that no build has the key of another. */
  build(person: Person, dockerfile: string | readonly string[], fields?: object): Promise<Built>;
  /** Starts a build and returns its id. */
  start(person: Person, dockerfile: string | readonly string[], fields?: object): Promise<string>;
  /** Returns the log of a running build until now. */
  logOf(buildId: string): Promise<string>;
  /** Waits until a build that `start` returned has finished. */
  finished(buildId: string): Promise<Built>;
  /** Pushes an image and returns its name with its digest. */
  push(registry: Registry, repository: string, image: Image): Promise<string>;
}

export interface ApartOptions {
  /** More of the server's configuration. */
  readonly config?: object;
}

/** Repositories of the open registry: the base image, and the targets of builds with the token. */
const limitedTo = ['base', 'of-limited', 'of-both'];
const administrator = { name: 'admin', password: 'secret' };
const noImage = { files: new Map<string, string>(), layers: [] };
const largestText = 64 * 1024;

export async function openApartWorld({ config = {} }: ApartOptions = {}): Promise<ApartWorld> {
  for (const name of ['slirp4netns', 'nft', 'ip', 'mkfs.ext4']) requireCommand(name);
  await using parts = new AsyncDisposableStack();
  const open = parts.use(await startRegistry());
  const closed = parts.use(await startRegistry({ auth: 'basic' }));
  const server = parts.use(
    await startSluice({
      config: {
        accounts: { [administrator.name]: administrator.password },
        access: { builds: 'open' },
        limits: { builds: { anonymous: 'off' } },
        registries: { [open.host]: { plainHttp: true }, [closed.host]: { plainHttp: true } },
        ...config,
      },
      env: {
        PATH: [buildkitDirectory(), process.env.PATH ?? ''].join(delimiter),
        // Its own builder.
        SLUICE_BUILDKIT: '',
        SLUICE_BUILDS_OPEN_BUILDERS: '',
        SLUICE_BUILDS_BUILDER_DISK: '2 GiB',
      },
    }),
  );
  const known = {
    ada: await newAccessToken(server, administrator, 'ada@example.org'),
    eve: await newAccessToken(server, administrator, 'eve@example.org'),
    stranger: undefined,
  };
  const asAda = async (path: string, body: object) => {
    const response = await server.fetch(`/platform${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${known.ada}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200);
    return (await response.json()) as { readonly accessKey: string };
  };
  const { username, password, host } = closed;
  const keys = { registry: host, userName: username, password };
  await asAda('/credentials', { credentials: { keys } });
  const repositories = limitedTo.map(name => `${open.host}/${name}`);
  const { accessKey: limited } = await asAda('/tokens', { name: 'limited', repositories });
  const tokens = { ...known, limited };

  const push = async (registry: Registry, repository: string, image: Image) => {
    const pusher = await Pusher.open(registry, repository);
    try {
      await pusher.push(image, 'latest');
    } finally {
      await pusher.close();
    }
    return `${registry.host}/${repository}@${image.root.digest}`;
  };
  const base = await push(open, 'base', imageOf({ layers: [await baseLayer()] }));

  const ask = async (person: Person, dockerfile: string | readonly string[], fields: object) => {
    const text = typeof dockerfile === 'string' ? dockerfile : `${dockerfile.join('\n')}\n`;
    const token = tokens[person];
    const response = await server.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        containerFile: Buffer.from(text).toString('base64'),
        buildRepository: `${open.host}/of-${person}`,
        labels: { build: randomUUID() },
        ...(token === undefined ? {} : { towerAccessToken: token }),
        ...fields,
      }),
    });
    return { status: response.status, text: await response.text() };
  };
  const finished = async (buildId: string): Promise<Built> => {
    const path = `/v1alpha1/builds/${buildId}`;
    const log = await (await server.fetch(`${path}/logs?follow=true`)).text();
    const details = (await (await server.fetch(path)).json()) as {
      readonly succeeded: boolean;
      readonly targetImage: string;
      readonly digest?: string;
      readonly reason?: string;
    };
    const { succeeded, digest, reason = '' } = details;
    const [, repository = ''] = /^[^/]+\/([^:@]+)/.exec(details.targetImage) ?? [];
    const isClosed = details.targetImage.startsWith(`${closed.host}/`);
    const image =
      succeeded && digest !== undefined
        ? await readImage(isClosed ? closed : open, repository, digest)
        : noImage;
    const texts = [...image.files].flat();
    return { succeeded, log, ...image, digest, buildId, all: [log, reason, ...texts].join('\n') };
  };
  const start = async (
    person: Person,
    dockerfile: string | readonly string[],
    fields: object = {},
  ) => {
    const { status, text } = await ask(person, dockerfile, fields);
    assert.equal(status, 200, text);
    return (JSON.parse(text) as { buildId: string }).buildId;
  };
  const [world] = [parts.move()];
  return {
    ...{ server, tokens, open, closed, base, push, start, finished },
    async build(person, dockerfile, fields = {}) {
      const { status, text } = await ask(person, dockerfile, fields);
      const none = { ...noImage, digest: undefined, buildId: undefined };
      if (status !== 200) return { succeeded: false, log: '', ...none, all: text };
      return finished((JSON.parse(text) as { buildId: string }).buildId);
    },
    logOf: async id => (await server.fetch(`/v1alpha1/builds/${id}/logs`)).text(),
    [Symbol.asyncDispose]: () => world.disposeAsync(),
  };
}

/** Returns the image of a build that must have succeeded. */
export function image(built: Built): Built {
  assert.equal(built.succeeded, true, built.all);
  return built;
}

/** Returns whether the log says that the step with this text came from the cache. */
export function isCached({ log }: Built, step: string): boolean {
  const [, number = ''] =
    log
      .split('\n')
      .filter(line => line.includes(step))
      .map(line => /^#(\d+) /.exec(line))
      .find(found => found !== null) ?? [];
  assert.notEqual(number, '', `the log has no step with '${step}':\n${log}`);
  return new RegExp(`^#${number} CACHED$`, 'm').test(log);
}

/** Checks that the builder remembers the steps of each caller: otherwise, nothing is ever shared, and no test here says anything. */
export async function requireCache(world: ApartWorld, ...people: readonly Person[]): Promise<void> {
  for (const person of people) {
    const step = `echo ${randomUUID()} > /plain`;
    const dockerfile = [`FROM ${world.base}`, `RUN ${step}`];
    assert.equal(isCached(image(await world.build(person, dockerfile)), step), false);
    assert.equal(isCached(image(await world.build(person, dockerfile)), step), true, person);
  }
}

interface Manifest {
  readonly layers?: readonly { readonly digest: string; readonly mediaType: string }[];
  readonly manifests?: readonly { readonly digest: string }[];
}

/** Reads the files of an image, or of the first image of an index. */
async function readImage(
  registry: Registry,
  repository: string,
  digest: string,
): Promise<{ files: Map<string, string>; layers: string[] }> {
  const url = `${registry.url}/v2/${repository}`;
  const login = Buffer.from(`${registry.username}:${registry.password}`).toString('base64');
  const headers = { accept: manifestAccept, authorization: `Basic ${login}` };
  const response = await fetch(`${url}/manifests/${digest}`, { headers });
  assert.equal(response.status, 200, `${url}/manifests/${digest}`);
  const { layers = [], manifests = [] } = (await response.json()) as Manifest;
  if (manifests[0]) return readImage(registry, repository, manifests[0].digest);
  const files = new Map<string, string>();
  for (const { digest } of layers) {
    const inLayer = layersRead.get(digest) ?? (await readLayer(`${url}/blobs/${digest}`, headers));
    layersRead.set(digest, inLayer);
    for (const [path, text] of inLayer) files.set(path, text);
  }
  return { files, layers: layers.map(layer => layer.digest) };
}

/** Files of layers, by digest: nearly all images have the layer of the base. */
const layersRead = new Map<string, ReadonlyMap<string, string>>();

async function readLayer(
  url: string,
  headers: Record<string, string>,
): Promise<Map<string, string>> {
  const blob = await fetch(url, { headers });
  assert.equal(blob.status, 200, url);
  return filesIn(unpacked(Buffer.from(await blob.arrayBuffer())));
}

function unpacked(bytes: Buffer): Buffer {
  if (bytes.readUInt16BE(0) === 0x1f8b) return gunzipSync(bytes);
  return bytes.readUInt32LE(0) === 0xfd2fb528 ? zstdDecompressSync(bytes) : bytes;
}

async function filesIn(tar: Buffer): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const entries = extract();
  entries.end(tar);
  for await (const entry of entries) {
    const { name, type, size = 0 } = entry.header;
    const parts: Buffer[] = [];
    for await (const part of entry) parts.push(part as Buffer);
    if (type !== 'file' || size > largestText) continue;
    files.set(`/${name.replace(/^\.?\//, '')}`, Buffer.concat(parts).toString());
  }
  return files;
}
