import { type Builds, lastLinesFollow } from '../builds/index.ts';
import { Fault } from '../foundation/fault.ts';
import { mediaTypes } from '../oci/media-type.ts';
import type { ContainerRequest, ManifestName } from '../request/index.ts';

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
    if (!succeeded || digest === null) throw failed(reason, logUrlOf(buildId));
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
      'The build of this image failed: read its log (sluice logs, with the build id in the answer to the request), or request the image again',
      { phase: 'build' },
    );
  };
}

// Leaves room for the address of the log.
const mostHeadline = 300;

function failed(reason: string | null, logUrl: string): Fault {
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
