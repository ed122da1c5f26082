import type { Builds } from '../build/builds.ts';
import { Fault } from '../fault.ts';
import { mediaTypes } from '../oci/media-type.ts';
import type { ContainerRequest, ManifestName } from '../request/container-request.ts';

/** The image is being built still: who asks again later may find it. */
export class StillBuilding extends Fault {
  constructor(message: string) {
    super('unavailable', message, { phase: 'build', retryAfterSeconds: 5 });
  }
}

/**
 * What the build of a request has made. Waits for it, but not too long: throws {@link StillBuilding} then,
 * and another {@link Fault} for a build that failed.
 *
 * @param patienceMs below the 30 s after which containerd (from 2.3 on) gives up on an answer
 * @param logUrlOf address of the log of a build
 */
export function createBuiltBy(
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
    if (!succeeded || digest === null) {
      const why = reason ?? 'see its log';
      const gap = why.includes('\n') ? '\n' : ' ';
      throw new Fault(
        'manifest-unknown',
        `The build of this image failed: ${why}${gap}(log: ${logUrlOf(buildId)})`,
        { phase: 'build' },
      );
    }
    return { digest, mediaType: mediaType ?? mediaTypes.ociManifest };
  };
}
