import { cacheOfBytes } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { type ImageChange, layersIn } from '../images/augment/index.ts';
import type { Documents, ImageMaker, MadeImage } from '../images/index.ts';
import type { ContainerRequest, FixedImage, ManifestName } from '../request/index.ts';
import type { Access } from '../upstream/index.ts';
import type { LookAtRight, Standing } from './pull-right.ts';
import { createPulledImage, type PulledImage } from './pulled-image.ts';

/** Returns the image of a container request. Throws a {@link Fault} for a caller that no longer has a right to it. */
export type ImageFinder = (request: ContainerRequest) => Promise<PulledImage>;

// About 4000 usual images. The size of an image in memory depends on its registry.
const keptBytes = 64 * 1024 * 1024;

export interface ImageFinderDeps {
  readonly documents: Documents;
  readonly makeImage: ImageMaker;
  readonly lookAtRight: LookAtRight;
  /**
   * Returns the image that the build of a request has made, and waits a while for it. Throws a {@link Fault} with the
   * state of the build.
   */
  readonly builtBy: (request: ContainerRequest) => Promise<ManifestName>;
}

type MadeRoot = Pick<MadeImage, 'root' | 'members'>;

interface Kept extends Standing {
  readonly image: PulledImage;
  /** From this time on the right is checked early, so that no pull waits for the check. */
  readonly renewAt: number;
}

export function createImageFinder({
  documents,
  makeImage,
  lookAtRight,
  builtBy,
}: ImageFinderDeps): ImageFinder {
  const images = cacheOfBytes<string, Kept>(keptBytes, ({ image }) => image.bytes());
  const renewing = new Set<string>();

  const makeRoot = async (
    { digest, mediaType }: ManifestName,
    access: Access,
    change: ImageChange,
  ): Promise<MadeRoot> =>
    makeImage(access, await documents.manifest(access, digest, mediaType), change);

  const fixedRoot = async (
    { base, served, members = [served.digest] }: FixedImage,
    access: Access,
    change: ImageChange,
  ): Promise<MadeRoot> => {
    const root = await documents.local(served.digest, served.mediaType);
    if (root) return { root, members };
    // The content store has lost it, or another replica handled the request: making it again gives the same bytes.
    const made = await makeRoot(base, access, change);
    if (made.root.digest === served.digest) return made;
    throw new Fault(
      'unavailable',
      'The image of this container token cannot be reproduced: make a new container request',
      { phase: 'augment' },
    );
  };

  const find = async (request: ContainerRequest, access: Access): Promise<PulledImage> => {
    const { fixed, change } = request;
    const { root, members } = fixed
      ? await fixedRoot(fixed, access, change)
      : await makeRoot(await builtBy(request), access, change);
    const layers = layersIn(change).map(({ gzipDigest }) => gzipDigest);
    // The cache measures the image again.
    const onGrow = () => {
      const kept = images.peek(request.token);
      if (kept) images.set(request.token, { ...kept });
    };
    return createPulledImage({
      root,
      access,
      documents,
      onGrow,
      owned: new Set([...members, ...layers]),
    });
  };

  const look = async (request: ContainerRequest, image?: PulledImage): Promise<PulledImage> => {
    const standing = await lookAtRight(request);
    const { access, until } = standing;
    const found = image ? { ...image, access } : await find(request, access);
    const now = performance.now();
    const renewAt = now + (until - now) / 2;
    images.set(request.token, { ...standing, image: found, renewAt });
    return found;
  };

  const renew = async (request: ContainerRequest, image: PulledImage): Promise<void> => {
    const { token } = request;
    if (renewing.has(token)) return;
    renewing.add(token);
    try {
      await look(request, image);
    } catch {
      // The next pull checks again, and reports the error to its client.
      images.delete(token);
    } finally {
      renewing.delete(token);
    }
  };

  return async request => {
    const kept = images.get(request.token);
    const now = performance.now();
    if (!kept || now >= kept.until) return look(request, kept?.image);
    if (now >= kept.renewAt) void renew(request, kept.image);
    return kept.image;
  };
}
