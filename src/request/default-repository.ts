import type { BuildPlaces } from '../builds/plan/index.ts';
import type { Caller } from './container-request.ts';
import type { Submission } from './submission.ts';

/**
 * Returns a request for a frozen image that asks for the default repository with that of its user. The repository of the
 * operator goes first; a request of a caller without one stays as it is.
 */
export function inHome(
  submission: Submission,
  { home }: Pick<Caller, 'home'>,
  { frozen, homes }: Pick<BuildPlaces, 'frozen' | 'homes'>,
): Submission {
  const { freeze, defaultRepository, buildRepository, format = 'docker' } = submission;
  if (!freeze || !defaultRepository || buildRepository !== undefined) return submission;
  if (!homes || home === undefined || frozen[format] !== undefined) return submission;
  return { ...submission, buildRepository: `${home}/${format === 'sif' ? 'sif' : 'frozen'}` };
}
