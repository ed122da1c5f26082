import { Fault } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Digest } from '../../oci/digest.ts';
import { type Descriptor, type Document, type ImageIndex, parseManifest } from '../../oci/index.ts';
import { isSchema1Type } from '../../oci/media-type.ts';
import {
  formatPlatform,
  formatReference,
  isNestedIndex,
  listPlatforms,
  matchesPlatform,
  type Platform,
  type Reference,
  selectPlatform,
} from '../../oci/naming.ts';
import type { Access, RegistryClient } from '../../upstream/index.ts';
import { architectureOf } from '../augment/index.ts';
import { type Documents, imageConfig } from '../documents.ts';

/** Finds base images with the rights of the caller. Both methods throw {@link Fault}. */
export interface BaseResolver {
  /** Returns the manifest or index that an image name refers to now. */
  resolve(access: Access, reference: Reference): Promise<Document>;
  /** Returns the image for the platform from a resolved manifest or index. */
  select(
    access: Access,
    reference: Reference,
    root: Document,
    platform: Platform,
  ): Promise<Document>;
}

/**
 * @param accessKey separates results that were obtained with different rights
 */
export function createBaseResolver(
  registry: RegistryClient,
  documents: Documents,
  accessKey: (access: Access) => string,
): BaseResolver {
  const asking = new SingleFlight<Document>();

  // Each call asks the registry, also for a digest: only the registry knows whether the caller may
  // see the image, and what a tag refers to now.
  const ask = async (access: Access, reference: string): Promise<Document> => {
    const head = await registry.headManifest(access, reference);
    // Reject it by its type, before the fetch: a schema 1 manifest is signed, so its digest is not that of its bytes.
    if (head && isSchema1Type(head.mediaType)) throw schema1();
    if (head) return documents.manifest(access, head.digest, head.mediaType);
    const document = await registry.getManifest(access, reference);
    await documents.receive(access, document);
    return document;
  };

  return {
    async resolve(access, reference) {
      const name = reference.digest ?? reference.tag ?? 'latest';
      const key = `${accessKey(access)} ${access.registry} ${access.repository} ${name}`;
      // A call gets no response that is older than itself: the tag may have moved.
      const root = await asking.runFresh(() => ask(access, name), { key });
      if (parseManifest(root).kind === 'schema1') throw schema1();
      return root;
    },
    select: (access, reference, root, platform) =>
      selectImage(documents, access, reference, root, platform),
  };
}

// No tool nests indexes deeper, or writes more of them into one.
const mostLevels = 4;
const mostIndexes = 16;

/** Returns the image for a platform in a manifest or index. Throws a {@link Fault} (400) when there is none. */
export async function selectImage(
  documents: Pick<Documents, 'manifest' | 'config'>,
  access: Access,
  reference: Reference,
  root: Document,
  platform: Platform,
): Promise<Document> {
  const manifest = parseManifest(root);
  const missing = (offered: string) =>
    new Fault(
      'bad-request',
      `${formatReference(reference)} has no image for ${formatPlatform(platform)}; it has: ${offered}`,
      { phase: 'request' },
    );
  if (manifest.kind === 'index') {
    const entries: Descriptor[] = [];
    const image = await imageIn(documents, access, manifest, platform, entries);
    if (!image) throw missing(listPlatforms(entries));
    return image;
  }
  const config =
    manifest.kind === 'manifest' ? await imageConfig(documents, access, manifest) : undefined;
  if (config) {
    const architecture = architectureOf(config.bytes);
    const offered = { os: 'linux', architecture: architecture ?? '' };
    if (architecture !== undefined && !matchesPlatform(platform, offered)) {
      throw missing(formatPlatform(offered));
    }
  }
  return root;
}

/**
 * Returns the image for a platform in an index, or in the indexes inside it.
 *
 * @param seen receives the entries of all indexes that were read
 */
async function imageIn(
  documents: Pick<Documents, 'manifest'>,
  access: Access,
  root: ImageIndex,
  platform: Platform,
  seen: Descriptor[],
): Promise<Document | undefined> {
  let left = mostIndexes;
  const search = async (index: ImageIndex, level: number): Promise<Document | undefined> => {
    seen.push(...index.manifests);
    const entry = selectPlatform(index.manifests, platform);
    for (const one of entry ? [entry] : index.manifests.filter(isNestedIndex)) {
      if (level === mostLevels || left === 0) return undefined;
      left -= 1;
      const document = await documents.manifest(access, one.digest as Digest, one.mediaType);
      const manifest = parseManifest(document);
      if (manifest.kind !== 'index') {
        if (one === entry) return document;
        continue;
      }
      const image = await search(manifest, level + 1);
      if (image) return image;
    }
    return undefined;
  };
  return search(root, 1);
}

function schema1(): Fault {
  return new Fault(
    'bad-request',
    'The image has the retired Docker schema 1 format, which current clients refuse: push it again with a current docker or skopeo',
    { phase: 'upstream' },
  );
}
