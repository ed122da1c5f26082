import type { Account, Role } from './accounts/accounts.ts';

/** What can be done with a repository. Source: distribution's token authentication, actions of the type `repository`. */
export type Action = 'pull' | 'push' | 'delete';

/** What somebody may do with a repository; it depends on the name alone, never on whether it exists. */
export type Rights = (repository: string) => readonly Action[];

const actionsOf: Readonly<Record<Role, readonly Action[]>> = {
  pull: ['pull'],
  push: ['pull', 'push'],
  administer: ['pull', 'push', 'delete'],
};

/** The rights of an account, those of anybody among them. */
export function accountRights({ repositories }: Account, anybody: Rights): Rights {
  if (!repositories) return () => actionsOf.administer;
  const rules = Object.entries(repositories).map(
    ([pattern, role]) => [matcher(pattern), actionsOf[role]] as const,
  );
  return repository =>
    rules
      .filter(([matches]) => matches(repository))
      .reduce(
        (most, [, actions]) => (actions.length > most.length ? actions : most),
        anybody(repository),
      );
}

/** The right to pull what matches one of the patterns. */
export function pullRights(patterns: readonly string[]): Rights {
  const matchers = patterns.map(matcher);
  return repository => (matchers.some(matches => matches(repository)) ? actionsOf.pull : []);
}

/** What both allow. */
export function commonRights(one: Rights, other: Rights): Rights {
  return repository => {
    const allowed = other(repository);
    return one(repository).filter(action => allowed.includes(action));
  };
}

/** `team/*`: a star stands for any characters, slashes among them. */
function matcher(pattern: string): (repository: string) => boolean {
  const parts = pattern.split('*').map(part => part.replace(/[\\^$.|?+()[\]{}]/g, '\\$&'));
  const expression = new RegExp(`^${parts.join('.*')}$`);
  return repository => expression.test(repository);
}
