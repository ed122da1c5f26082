/** What a sweep requires of hosted repositories: open uploads, build contexts, pulled names. */

export { hostedSubjects, referenceSubject, removePulls } from '../listings/pulled-names.ts';
export { contextPrefix, contextRepository } from './context-repository.ts';
export { mostOpen } from './open-uploads.ts';
