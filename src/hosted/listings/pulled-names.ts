import { type Digest, isDigest } from '../../oci/digest.ts';
import type { PullStore, PullSubject } from '../../storage/rows/index.ts';

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

/** Removes the pulls of a hosted repository, its tags and its manifests: a later repository of the name has none. */
export async function removePulls(
  repository: string,
  pulls: Pick<PullStore, 'remove'>,
): Promise<void> {
  const own = repositorySubject(repository);
  await pulls.remove(own, own);
  for (const separator of [':', '@']) {
    const first = `reference ${repository}${separator}`;
    // All characters of tags and digests come before the tilde.
    await pulls.remove(first as PullSubject, `${first}~` as PullSubject);
  }
}
