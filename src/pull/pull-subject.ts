import { hostedSubjects } from '../hosted/uploads/index.ts';
import type { Reference } from '../oci/naming.ts';
import type { ContainerRequest } from '../request/index.ts';
import { type ContainerToken, hashToken } from '../request/tokens/index.ts';
import type { PullSubject } from '../storage/rows/index.ts';

/** Returns the subject of pulls through a container token. It contains the hash only: the token gives access. */
export function containerSubject(token: ContainerToken): PullSubject {
  return `container ${hashToken(token).toString('hex')}` as PullSubject;
}

/** Returns the subjects of a pull through a container token; an image of this server counts as pulled too. */
export function servedSubjects(
  { token, image, fixed }: ContainerRequest,
  ownHost: string,
): PullSubject[] {
  const isHosted = image.registry === ownHost && fixed !== undefined;
  return [
    containerSubject(token),
    ...(isHosted ? hostedSubjects(image.repository, fixed.base.digest, image.tag) : []),
  ];
}

/** Returns the name under which pulls of an image are counted: without tag and digest. */
export function imageName({ registry, repository }: Omit<Reference, 'tag'>): string {
  return `${registry}/${repository}`;
}
