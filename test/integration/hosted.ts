/** A server with accounts, and the checks of tests of hosted repositories with real clients. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { basic } from '../hosted/push-client.ts';
import { type Client, type Login, pull } from '../world/clients.ts';
import type { Root } from '../world/root.ts';
import type { ServedRequest, Sluice } from '../world/sluice.ts';
import { assertSuccess } from './served.ts';

/** Administers everything. */
export const admin: Login = { username: 'admin', password: 'secret' };
/** Pushes to `team/*`. */
export const ci: Login = { username: 'ci', password: 'word' };
/** Pulls from `team/*`. */
export const reader: Login = { username: 'reader', password: 'read' };
/** A login that was valid once, or never. */
export const stale: Login = { username: 'ci', password: 'outdated' };

/** The setting `accounts` for {@link admin}, {@link ci} and {@link reader}. */
export const accounts = {
  admin: 'secret',
  ci: { password: 'word', repositories: { 'team/*': 'push' } },
  reader: { password: 'read', repositories: { 'team/*': 'pull' } },
} as const;

/** An image of a hosted repository with all its bytes verified. */
export interface HostedImage {
  readonly digest: string;
  readonly mediaType: string;
  /** The digest that a client on linux/amd64 selects. */
  readonly platformDigest: string;
  readonly config: string;
  readonly layers: readonly string[];
}

interface Manifest {
  readonly config?: { readonly digest: string };
  readonly layers?: readonly { readonly digest: string }[];
  readonly manifests?: readonly {
    readonly digest: string;
    readonly platform?: { readonly architecture: string };
  }[];
}

/** Fetches an image of a hosted repository with all its parts. Every digest must be correct. */
export async function inspectHosted(
  sluice: Sluice,
  repository: string,
  reference: string,
): Promise<HostedImage> {
  const get = async (route: string) => {
    const headers = { ...basic(admin.username, admin.password), accept: '*/*' };
    const response = await sluice.fetch(`/v2/${repository}/${route}`, { headers });
    const bytes = Buffer.from(await response.arrayBuffer());
    assert.equal(response.status, 200, `${repository}/${route}: ${bytes.subarray(0, 500)}`);
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    assert.equal(response.headers.get('docker-content-digest'), digest, route);
    return { digest, bytes, mediaType: response.headers.get('content-type') ?? '' };
  };
  const getManifest = async (name: string) => {
    const { bytes, ...rest } = await get(`manifests/${name}`);
    return { ...rest, manifest: JSON.parse(bytes.toString()) as Manifest };
  };

  const root = await getManifest(reference);
  const children = root.manifest.manifests ?? [];
  const parts = await Promise.all(children.map(({ digest }) => getManifest(digest)));
  const blobs = [root, ...parts].flatMap(({ manifest: { config, layers = [] } }) => [
    ...(config ? [config] : []),
    ...layers,
  ]);
  for (const { digest } of blobs) assert.equal((await get(`blobs/${digest}`)).digest, digest);

  const chosen = children.find(({ platform }) => platform?.architecture === 'amd64')?.digest;
  const own = parts.find(({ digest }) => digest === chosen) ?? root;
  return {
    digest: root.digest,
    mediaType: root.mediaType,
    platformDigest: own.digest,
    config: own.manifest.config?.digest ?? '',
    layers: own.manifest.layers?.map(({ digest }) => digest) ?? [],
  };
}

/** Pulls with a client without stored content, and compares the result byte for byte. */
export async function pullBack(
  root: Root,
  client: Client,
  reference: string,
  image: HostedImage,
): Promise<void> {
  if (client === 'podman' || client === 'buildah') {
    assertSuccess(await root.exec([client, 'rmi', '--all', '--force']), client);
    assertSuccess(await pull(root, client, reference), client);
    const format = '{{.Id}} {{json .RepoDigests}}';
    const found = await root.exec(['podman', 'image', 'inspect', '--format', format, reference]);
    const [id, digests = ''] = assertSuccess(found, client).split(' ');
    assert.equal(`sha256:${id}`, image.config, client);
    assert.ok(digests.includes(image.platformDigest), `${client}: ${digests}`);
    return;
  }
  const place = `/tmp/${client}-${++places}`;
  const result =
    client === 'crane'
      ? // Its usual tar has another manifest than the registry.
        root.exec(['crane', 'pull', '--insecure', '--format', 'oci', reference, place])
      : pull(root, client, reference, { into: place });
  assertSuccess(await result, client);
  const digests = await digestsBelow(join(root.directory, place));
  for (const digest of [image.platformDigest, image.config, ...image.layers]) {
    assert.ok(digests.has(digest), `${client} lacks ${digest}`);
  }
}

let places = 0;

/** The digests of all files below a folder. */
export async function digestsBelow(folder: string): Promise<Set<string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const digests = new Set<string>();
  for (const entry of entries.filter(one => one.isFile())) {
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(join(entry.parentPath, entry.name))) {
      hash.update(chunk);
    }
    digests.add(`sha256:${hash.digest('hex')}`);
  }
  return digests;
}

/**
 * Returns the requests of uploads that mounted a blob of another repository. No client here sends a blob with its first
 * request.
 */
export async function mountsInto(sluice: Sluice, repository: string): Promise<ServedRequest[]> {
  const uploads = `/v2/${repository}/blobs/uploads/`;
  return (await sluice.requests()).filter(
    ({ method, path, status }) => method === 'POST' && path === uploads && status === 201,
  );
}

/** The blobs on the disk of a server, by digest. */
export async function keptBlobs(sluice: Sluice): Promise<string[]> {
  const folder = join(sluice.data, 'content/blobs/sha256');
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter(entry => entry.isFile()).map(({ name }) => `sha256:${name}`);
}
