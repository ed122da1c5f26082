import { createHash } from 'node:crypto';

/** The owner of build contexts. */
export interface ContextOwner {
  readonly user?: string | undefined;
  /** Network of a caller without a login. */
  readonly network?: string | undefined;
}

/** Prefix of the repositories for uploaded build contexts. */
export const contextPrefix = 'contexts/';
const users = `${contextPrefix}users`;
/** Prefix of the repositories of all callers without a login. */
export const anonymousContexts = `${contextPrefix}networks`;

const hashDigits = 32;

/**
 * Returns the repository of a caller's build contexts. Each user has one, and so has each network of callers without
 * a login.
 */
export function contextRepository({ user, network = '' }: ContextOwner): string {
  const [place, owner] = user === undefined ? [anonymousContexts, network] : [users, user];
  const hash = createHash('sha256').update(owner).digest('hex');
  return `${place}/${hash.slice(0, hashDigits)}`;
}

/** True for the repository of a caller without a login. */
export function isAnonymousContext(repository: string): boolean {
  return repository.startsWith(`${anonymousContexts}/`);
}
