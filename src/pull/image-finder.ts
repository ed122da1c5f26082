import { type Builds, lastLinesFollow } from '../builds/index.ts';
import { cacheOfBytes } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { type ImageChange, layersIn } from '../images/augment/index.ts';
import type { Documents, ImageMaker, MadeImage } from '../images/index.ts';
import { mediaTypes } from '../oci/media-type.ts';
import type { ContainerRequest, FixedImage, ManifestName } from '../request/index.ts';
import type { Access } from '../upstream/index.ts';
import { createKeptRights, type Kept } from './kept-rights.ts';
import type { CheckRight, PullRight } from './pull-right.ts';
import { createPulledImage, type PulledImage } from './pulled-image.ts';

/** Returns the image of a container request. Throws a {@link Fault} for a caller that no longer has a right to it. */
export type ImageFinder = (request: ContainerRequest) => Promise<PulledImage>;

// About 4000 usual images. The size of an image in memory depends on its registry.
const keptBytes = 64 * 1024 * 1024;

interface ImageFinderDeps {
  readonly documents: Documents;
  readonly makeImage: ImageMaker;
  readonly checkRight: CheckRight;
  /**
   * Returns the image that the build of a request has made, and waits a while for it. Throws a {@link Fault} with the
   * state of the build.
   */
  readonly findBuilt: (request: ContainerRequest) => Promise<ManifestName>;
}

type MadeRoot = Pick<MadeImage, 'root' | 'members'>;

type FoundImage = Pick<PullRight, 'until'> & { readonly image: PulledImage };

export function createImageFinder({
  documents,
  makeImage,
  checkRight,
  findBuilt,
}: ImageFinderDeps): ImageFinder {
  const images = cacheOfBytes<string, Kept<FoundImage>>(keptBytes, ({ found }) =>
    found.image.bytes(),
  );

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
      : await makeRoot(await findBuilt(request), access, change);
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

  const check = async (request: ContainerRequest, last?: FoundImage): Promise<FoundImage> => {
    const { access, until } = await checkRight(request);
    return { until, image: last ? { ...last.image, access } : await find(request, access) };
  };

  const keptImage = createKeptRights(check, images);
  return async request => (await keptImage(request)).image;
}

/** The image is still being built: the client can pull it again later. */
export class StillBuilding extends Fault {
  constructor(message: string) {
    super('unavailable', message, { phase: 'build', retryAfterSeconds: 5 });
  }
}

/**
 * Returns the image that the build of a request has made. Waits for the build for a limited time: then throws {@link
 * StillBuilding}. Throws another {@link Fault} for a failed build.
 *
 * @param patienceMs below the 30 s after which containerd (from 2.3 on) gives up on a response
 * @param logUrlOf address of the log of a build
 */
export function createFindBuilt(
  builds: Builds,
  patienceMs: number,
  logUrlOf: (buildId: string) => string,
): (request: ContainerRequest) => Promise<ManifestName> {
  return async ({ buildId = '' }) => {
    const build = await builds.settled(buildId, patienceMs);
    const { succeeded, digest, mediaType, startedAt, reason } = build;
    if (succeeded === null) {
      const state = startedAt === null ? `waits for ${builds.waitsFor(build)}` : 'is running';
      throw new StillBuilding(
        `The build of this image ${state}: pull it again in a while (log: ${logUrlOf(buildId)})`,
      );
    }
    if (!succeeded || digest === null) throw failedBuild(reason, logUrlOf(buildId));
    return { digest, mediaType: mediaType ?? mediaTypes.ociManifest };
  };
}

/**
 * Waits for the build of a hosted name that has no image yet. Returns true if the image may exist now. Throws {@link
 * StillBuilding} after a limited time, and a {@link Fault} (404) for a failed build. Clients that know the name do not learn
 * more: whoever has the id of a build can read its log.
 *
 * @param name `registry/repository:tag`
 */
export type AwaitBuild = (name: string) => Promise<boolean>;

export function createAwaitBuild(builds: Builds, patienceMs: number): AwaitBuild {
  return async name => {
    const build = await builds.settledAs(name, patienceMs);
    if (!build) return false;
    if (build.succeeded === null) {
      throw new StillBuilding('The build of this image has not finished: pull it again in a while');
    }
    if (build.succeeded) return true;
    throw new Fault(
      'manifest-unknown',
      'The build of this image failed: read its log (sluice logs, with the build id in the response to the request), or request the image again',
      { phase: 'build' },
    );
  };
}

// Leaves room for the address of the log.
const mostHeadline = 300;

function failedBuild(reason: string | null, logUrl: string): Fault {
  const why = reason ?? 'see its log';
  const [line = ''] = why.split('\n', 1);
  const first = line.endsWith(lastLinesFollow) ? line.slice(0, -lastLinesFollow.length) : line;
  const short = first.length > mostHeadline ? `${first.slice(0, mostHeadline)}...` : first;
  const tell = (text: string, gap: string) =>
    `The build of this image failed: ${text}${gap}(log: ${logUrl})`;
  return new Fault('build-failed', tell(why, why.includes('\n') ? '\n' : ' '), {
    phase: 'build',
    headline: tell(short, ' '),
  });
}
