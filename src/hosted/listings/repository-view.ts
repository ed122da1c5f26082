import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { dayMs, dayOf } from '../../foundation/telemetry/counted.ts';
import type { Digest } from '../../oci/digest.ts';
import { type Descriptor, type Manifest, parseManifest } from '../../oci/index.ts';
import { isImageConfigType } from '../../oci/media-type.ts';
import { isAttestation, OciSyntaxError, offeredPlatforms } from '../../oci/naming.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { HostedStore, PullStore, PullSubject, RecentPulls } from '../../storage/rows/index.ts';
import type { HostedManifests } from '../manifests.ts';
import type { Rights } from '../rights.ts';
import { referenceSubject, repositorySubject } from './pulled-names.ts';

export interface RepositorySources {
  readonly store: HostedStore;
  readonly manifests: HostedManifests;
  readonly content: ContentStore;
  readonly pulls: Pick<PullStore, 'recent'>;
}

export interface ShownRepository {
  readonly name: string;
  readonly bytes: number;
  readonly pulls: RecentPulls;
}

export interface RepositoryList {
  readonly repositories: readonly ShownRepository[];
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
  readonly pulls: RecentPulls;
  readonly referrers: readonly ShownReferrer[];
  readonly hasMoreReferrers: boolean;
}

/** An image that no tag names. */
export interface UntaggedImage extends ShownManifest {
  readonly pulls: RecentPulls;
}

export interface RepositoryView extends ShownRepository {
  readonly tags: readonly ShownTag[];
  readonly next: string | undefined;
}

export interface UntaggedPage {
  readonly images: readonly UntaggedImage[];
  /** The digest after which the next page begins; undefined at the end of the list. */
  readonly next: string | undefined;
}

const repositoriesOfPage = 50;
const batch = 500;
// A page looks at this many manifests at most.
const mostSeen = 5000;
const tagsOfPage = 20;
const shownReferrers = 5;
const shownImages = 32;
const largestConfig = 256 * 1024;
/** Pulls are counted for this many days. */
export const recentDays = 30;

/** Returns a page of the repositories that the viewer may pull, in the order of the catalog. */
export async function listRepositories(
  rights: Rights,
  find: string,
  after: string,
  { store, pulls }: Pick<RepositorySources, 'store' | 'pulls'>,
): Promise<RepositoryList> {
  const names: string[] = [];
  let last = after;
  let hasMore = true;
  // The name of the next page is one that the caller may pull: it must not say that others exist.
  while (hasMore && names.length <= repositoriesOfPage) {
    await pauseTurn();
    const found = await store.repositories(last, batch);
    hasMore = found.length === batch;
    last = found.at(-1) ?? last;
    names.push(...found.filter(name => name.includes(find) && rights(name).includes('pull')));
  }
  const page = names.slice(0, repositoriesOfPage);
  const repositories = [];
  for (const name of page) repositories.push(await shownRepository(name, { store, pulls }));
  return { repositories, next: names.length > repositoriesOfPage ? page.at(-1) : undefined };
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
      tag,
      hasMoreReferrers: referrers.length > shownReferrers,
      ...(await viewManifest(name, digest, sources)),
      pulls: await recentPulls(referenceSubject(name, tag), sources.pulls),
      referrers: await Promise.all(
        referrers.slice(0, shownReferrers).map(async one => referrerOf(name, one.digest, sources)),
      ),
    });
  }
  const next = found.length > tagsOfPage ? found[tagsOfPage - 1] : undefined;
  return { ...(await shownRepository(name, sources)), tags, next };
}

/** Returns a page of the images of a repository that no tag names. Throws a `Fault` (404). */
export async function listUntagged(
  name: string,
  after: string,
  sources: RepositorySources,
): Promise<UntaggedPage> {
  const { store } = sources;
  if (!(await store.hasRepository(name))) throw unknownRepository(name);
  const digests: Digest[] = [];
  let last = after;
  let hasMore = true;
  for (let seen = 0; hasMore && seen < mostSeen && digests.length <= tagsOfPage; ) {
    await pauseTurn();
    const found = await store.manifestsOf(name, last, batch);
    seen += found.length;
    hasMore = found.length === batch;
    last = found.at(-1)?.digest ?? last;
    for (const { digest, isUntagged } of found) if (isUntagged) digests.push(digest);
  }
  const images: UntaggedImage[] = [];
  for (const digest of digests.slice(0, tagsOfPage)) {
    await pauseTurn();
    images.push({
      ...(await viewManifest(name, digest, sources)),
      pulls: await recentPulls(referenceSubject(name, digest), sources.pulls),
    });
  }
  const isFull = digests.length > tagsOfPage;
  return { images, next: isFull ? images.at(-1)?.digest : hasMore ? last : undefined };
}

async function shownRepository(
  name: string,
  { store, pulls }: Pick<RepositorySources, 'store' | 'pulls'>,
): Promise<ShownRepository> {
  return {
    name,
    bytes: await store.repositoryBytes(name),
    pulls: await recentPulls(repositorySubject(name), pulls),
  };
}

function recentPulls(
  subject: PullSubject,
  pulls: RepositorySources['pulls'],
): Promise<RecentPulls> {
  const from = dayOf(Date.now() - recentDays * dayMs);
  return pulls.recent(subject, from);
}

/** Returns the response for a repository that does not exist, and for one that the viewer may not pull. */
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
    ...shown,
    bytes,
    platforms: offeredPlatforms(images),
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
  if (size > largestConfig) return undefined;
  try {
    const bytes = await content.read(digest);
    const config = bytes && JSON.parse(bytes.toString());
    if (!isImageConfigType(mediaType) && config?.rootfs === undefined) return undefined;
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
