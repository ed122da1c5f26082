import type { Builds } from '../../../builds/builds.ts';
import type { ContainerRequest } from '../../../request/container-request.ts';
import { isoTime } from './container-answer.ts';

/**
 * Returns the status of a container request. An existing image is done at once, any other when its build has finished.
 *
 * @param pageUrlOf address of the page of a build
 */
export async function containerStatus(
  builds: Pick<Builds, 'get'>,
  pageUrlOf: (buildId: string) => string,
  { token, createdAt, buildId, fixed, asked }: ContainerRequest,
) {
  const build = fixed || buildId === undefined ? undefined : await builds.get(buildId);
  const succeeded = build ? build.succeeded : true;
  return {
    id: token,
    status: succeeded === null ? 'BUILDING' : 'DONE',
    ...(buildId === undefined
      ? {}
      : {
          [asked?.mirror ? 'mirrorId' : 'buildId']: buildId,
          detailsUri: pageUrlOf(buildId),
        }),
    ...(succeeded === null ? {} : { succeeded }),
    ...(build?.reason ? { reason: build.reason } : {}),
    creationTime: isoTime(createdAt),
    // The system clock may have been set back since then.
    duration: Math.max(0, (build?.finishedAt ?? Date.now()) - createdAt) / 1000,
  };
}
