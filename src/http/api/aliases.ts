/**
 * Names that clients in use send for fields and paths of this API, each with the name it has here.
 * The one place that knows them.
 */
export const fieldAliases: Readonly<Record<string, string>> = {
  towerAccessToken: 'platformAccessToken',
  towerRefreshToken: 'platformRefreshToken',
  towerEndpoint: 'platformEndpoint',
  towerWorkspaceId: 'platformWorkspaceId',
};

/**
 * The version of Wave whose API existing clients find here. They compare it with the version they need:
 * wave-cli needs 1.13.0, which introduced the state of a container request.
 */
export const apiLevel = '1.13.0';

/** Path segment of the metrics of mounted file systems. */
export const mountedAlias = 'fusion';

/** True for a body that has at least one field under the name that other clients send. */
export function usesAliases(body: unknown): boolean {
  if (typeof body !== 'object' || body === null) return false;
  return Object.keys(fieldAliases).some(name => Object.hasOwn(body, name));
}

/** Returns a message with the names of fields that a client which {@link usesAliases} knows. */
export function inAliases(message: string): string {
  return Object.entries(fieldAliases).reduce(
    (text, [alias, own]) => text.replaceAll(`'${own}'`, `'${alias}'`),
    message,
  );
}

/** The body with the fields under their names here; a field sent under both keeps the one from here. */
export function withoutAliases(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body;
  const entries = Object.entries(body);
  const aliased = entries.flatMap(([name, value]) => {
    const own = Object.hasOwn(fieldAliases, name) ? fieldAliases[name] : undefined;
    return own === undefined ? [] : [[own, value] as const];
  });
  const given = entries.filter(
    ([name, value]) => !Object.hasOwn(fieldAliases, name) && value !== null,
  );
  return Object.fromEntries([...aliased, ...given]);
}
