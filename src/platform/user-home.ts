import { createHash } from 'node:crypto';
import type { Action } from '../hosted/accounts/index.ts';
import { hasScope, type TokenRights } from './token-rights.ts';

/** The person that a hosted repository belongs to. */
interface Owner {
  /** Identifies a person uniquely over all platforms. */
  readonly user: string;
  /** The e-mail address, or the name of the user. */
  readonly name: string;
}

const first = 'users/';
const longestWord = 40;

/**
 * Returns the path that the hosted repositories of a user are below, such as `users/ada-0f3a...`. Its readable part
 * is not unique, so the rest is computed from the platform, the number and the name of the user.
 */
export function homeOf(owner: Owner): string {
  const [local = ''] = owner.name.toLowerCase().split('@', 1);
  const word = local
    .replace(/[^a-z0-9]/g, ' ')
    .trim()
    .split(/ +/)
    .join('-')
    .slice(0, longestWord);
  const text = word.replace(/-$/, '');
  return `${first}${text === '' ? 'user' : text}-${markOf(owner)}`;
}

/**
 * Returns what a user may do with a hosted repository: pull and delete their own images. They are pushed by builds only,
 * which have limits.
 *
 * @param name `registry/path`
 */
export function homeRights(
  { home, rights }: { readonly home?: string; readonly rights?: TokenRights | undefined },
  name: string,
): readonly Action[] {
  if (home === undefined || !name.startsWith(`${home}/`)) return [];
  return hasScope(rights, 'build') ? ['pull', 'delete'] : ['pull'];
}

function markOf({ user, name }: Owner): string {
  // A number may get another owner after a user was removed, a name on another platform.
  const identity = JSON.stringify([user, name]);
  return createHash('sha256').update(identity).digest('hex').slice(0, 16);
}
