import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { HostedManifests } from '../../hosted/manifests.ts';
import type { Rights } from '../../hosted/rights.ts';
import type { Descriptor } from '../../oci/descriptor.ts';
import type { Digest } from '../../oci/digest.ts';
import { type Manifest, parseManifest } from '../../oci/manifest.ts';
import { isImageConfigType } from '../../oci/media-type.ts';
import { isAttestation, offeredPlatforms } from '../../oci/platform.ts';
import { OciSyntaxError } from '../../oci/syntax-error.ts';
import type { ContentStore } from '../../storage/content/content-store.ts';
import type { HostedStore } from '../../storage/rows/hosted/hosted-store.ts';

export interface RepositorySources {
  readonly store: HostedStore;
  readonly manifests: HostedManifests;
  readonly content: ContentStore;
}

export interface RepositoryList {
  readonly repositories: readonly { readonly name: string; readonly bytes: number }[];
  /** The name after which the next page begins; undefined at the end of the list. */
  readonly next: string | undefined;
}

/** What is known about a manifest without its layers. */
export interface ShownManifest {
  readonly digest: Digest;
  readonly artifactType: string | undefined;
  readonly platforms: readonly string[];
  /** Bytes of the config and the layers, of all platforms; undefined where they are not known. */
  readonly bytes: number | undefined;
  /** The images of an index. */
  readonly images: readonly { readonly platform: string; readonly digest: Digest }[];
}

export interface ShownReferrer {
  readonly digest: Digest;
  readonly artifactType: string | undefined;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface ShownTag extends ShownManifest {
  readonly tag: string;
  readonly referrers: readonly ShownReferrer[];
  readonly hasMoreReferrers: boolean;
}

export interface RepositoryView {
  readonly name: string;
  readonly bytes: number;
  readonly tags: readonly ShownTag[];
  readonly next: string | undefined;
}

const repositoriesOfPage = 50;
const batch = 500;
// A page looks at this many names at most, whatever the viewer may pull.
const mostSeen = 5000;
const tagsOfPage = 20;
const shownReferrers = 5;
const shownImages = 32;
const largestConfig = 256 * 1024;

/** Returns a page of the repositories that the viewer may pull, in the order of the catalog. */
export async function listRepositories(
  rights: Rights,
  find: string,
  after: string,
  store: HostedStore,
): Promise<RepositoryList> {
  const names: string[] = [];
  let last = after;
  let hasMore = true;
  for (let seen = 0; hasMore && seen < mostSeen && names.length <= repositoriesOfPage; ) {
    await pauseTurn();
    const found = await store.repositories(last, batch);
    seen += found.length;
    hasMore = found.length === batch;
    last = found.at(-1) ?? last;
    names.push(...found.filter(name => name.includes(find) && rights(name).includes('pull')));
  }
  const page = names.slice(0, repositoriesOfPage);
  const repositories = [];
  for (const name of page) repositories.push({ name, bytes: await store.repositoryBytes(name) });
  const isFull = names.length > repositoriesOfPage;
  return { repositories, next: isFull ? page.at(-1) : hasMore ? last : undefined };
}

/** Returns a page of the tags of a repository. Throws a `Fault` (404). */
export async function viewRepository(
  name: string,
  after: string,
  sources: RepositorySources,
): Promise<RepositoryView> {
  const { store } = sources;
  if (!(await store.hasRepository(name))) throw unknownRepository(name);
  const found = await store.tags(name, after, tagsOfPage + 1);
  const tags: ShownTag[] = [];
  for (const tag of found.slice(0, tagsOfPage)) {
    await pauseTurn();
    const digest = await store.tagged(name, tag);
    // It was deleted since.
    if (digest === undefined) continue;
    const referrers = await store.referrers(name, digest, '', shownReferrers + 1);
    tags.push({
      ...{ tag, hasMoreReferrers: referrers.length > shownReferrers },
      ...(await viewManifest(name, digest, sources)),
      referrers: await Promise.all(
        referrers.slice(0, shownReferrers).map(async one => referrerOf(name, one.digest, sources)),
      ),
    });
  }
  const next = found.length > tagsOfPage ? found[tagsOfPage - 1] : undefined;
  return { name, bytes: await store.repositoryBytes(name), tags, next };
}

/** Returns the answer for a repository that does not exist, and for one that the viewer may not pull. */
export function unknownRepository(name: string): Fault {
  return new Fault(
    'not-found',
    `The repository ${name} does not exist, or your login may not pull it`,
    { phase: 'request' },
  );
}

/** Returns the platforms and the size of a manifest. Damaged and unknown manifests have neither. */
export async function viewManifest(
  repository: string,
  digest: Digest,
  sources: RepositorySources,
): Promise<ShownManifest> {
  const row = await sources.store.manifest(repository, digest);
  const shown = { digest, artifactType: row?.artifactType ?? undefined };
  const unknown = { ...shown, platforms: [], bytes: undefined, images: [] };
  const manifest = await readManifest(repository, digest, sources);
  if (manifest?.kind === 'manifest') {
    const platform = await platformOf(manifest.config, sources.content);
    const bytes = sizeOf(manifest);
    return { ...shown, platforms: platform === undefined ? [] : [platform], bytes, images: [] };
  }
  if (manifest?.kind !== 'index') return unknown;
  const images = manifest.manifests.filter(one => !isAttestation(one)).slice(0, shownImages);
  let bytes: number | undefined = 0;
  for (const image of images) {
    await pauseTurn();
    const part = await readManifest(repository, image.digest, sources);
    bytes = part?.kind === 'manifest' && bytes !== undefined ? bytes + sizeOf(part) : undefined;
  }
  return {
    ...{ ...shown, bytes, platforms: offeredPlatforms(images) },
    images: images.map(one => ({
      platform: offeredPlatforms([one])[0] ?? 'unknown platform',
      digest: one.digest,
    })),
  };
}

async function readManifest(
  repository: string,
  digest: Digest,
  { manifests }: RepositorySources,
): Promise<Manifest | undefined> {
  try {
    return parseManifest(await manifests.get(repository, digest));
  } catch (error) {
    if (error instanceof OciSyntaxError || error instanceof Fault) return undefined;
    throw error;
  }
}

function sizeOf({ config, layers }: Manifest & { kind: 'manifest' }): number {
  return layers.reduce((sum, { size }) => sum + size, config.size);
}

async function platformOf(
  { digest, size, mediaType }: Descriptor,
  content: ContentStore,
): Promise<string | undefined> {
  if (!isImageConfigType(mediaType) || size > largestConfig) return undefined;
  try {
    const bytes = await content.read(digest);
    const config = bytes && JSON.parse(bytes.toString());
    const parts: unknown[] = [config?.os, config?.architecture, config?.variant];
    const words = parts.filter(part => typeof part === 'string' && part !== '');
    return words.length < 2 ? undefined : words.join('/').slice(0, 80);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

async function referrerOf(
  repository: string,
  digest: Digest,
  { store }: RepositorySources,
): Promise<ShownReferrer> {
  const row = await store.manifest(repository, digest);
  const annotations = row?.annotations ? JSON.parse(row.annotations) : {};
  return { digest, artifactType: row?.artifactType ?? undefined, annotations };
}
