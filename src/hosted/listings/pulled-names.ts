import { type Digest, isDigest } from '../../oci/digest.ts';
import type { PullSubject } from '../../storage/rows/figures/pull-rows.ts';

/** Returns the subject of all pulls from a hosted repository. */
export function repositorySubject(repository: string): PullSubject {
  return `repository ${repository}` as PullSubject;
}

/** Returns the subject of pulls of a tag or a manifest of a hosted repository. */
export function referenceSubject(repository: string, reference: string): PullSubject {
  const separator = isDigest(reference) ? '@' : ':';
  return `reference ${repository}${separator}${reference}` as PullSubject;
}

/** Returns the subjects of a pull of a hosted image. */
export function hostedSubjects(
  repository: string,
  digest: Digest,
  tag: string | undefined,
): PullSubject[] {
  return [
    repositorySubject(repository),
    referenceSubject(repository, digest),
    ...(tag === undefined ? [] : [referenceSubject(repository, tag)]),
  ];
}
