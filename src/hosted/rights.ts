import type { Account, Role } from './accounts/accounts.ts';

/** An action on a repository. Source: distribution's token authentication, actions of the type `repository`. */
export type Action = 'pull' | 'push' | 'delete';

/**
 * Returns the allowed actions on a repository. They depend on the name alone, never on whether the repository exists.
 */
export type Rights = (repository: string) => readonly Action[];

const actionsOf: Readonly<Record<Role, readonly Action[]>> = {
  pull: ['pull'],
  push: ['pull', 'push'],
  administer: ['pull', 'push', 'delete'],
};

/** Returns the rights of an account, including those of callers without a login. */
export function accountRights({ repositories, roles }: Account, anybody: Rights): Rights {
  if (!repositories && !roles) return () => actionsOf.administer;
  const rules = Object.entries(repositories ?? {}).map(
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

/** Returns the right to pull repositories that match one of the patterns. */
export function pullRights(patterns: readonly string[]): Rights {
  const matchers = patterns.map(matcher);
  return repository => (matchers.some(matches => matches(repository)) ? actionsOf.pull : []);
}

/** Returns the actions that both allow. */
export function commonRights(one: Rights, other: Rights): Rights {
  return repository => {
    const allowed = other(repository);
    return one(repository).filter(action => allowed.includes(action));
  };
}

/**
 * Returns a function that matches patterns such as `team/*`: `*` matches any characters, including slashes. Takes the first place for each text
 * between two stars, since a later one leaves less room for the others: a regular expression would try all of them.
 */
export function matcher(pattern: string): (repository: string) => boolean {
  const [start = '', ...others] = pattern.split('*');
  const end = others.pop();
  if (end === undefined) return repository => repository === pattern;
  return repository => {
    let position = start.length;
    if (!repository.startsWith(start)) return false;
    for (const part of others) {
      const found = repository.indexOf(part, position);
      if (found < 0) return false;
      position = found + part.length;
    }
    return repository.length - end.length >= position && repository.endsWith(end);
  };
}
