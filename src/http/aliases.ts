/**
 * Names that existing clients send for fields and paths of this API, each with its name in this API.
 * No other file contains these names.
 */
export const fieldAliases: Readonly<Record<string, string>> = {
  towerAccessToken: 'platformAccessToken',
  towerRefreshToken: 'platformRefreshToken',
  towerEndpoint: 'platformEndpoint',
  towerWorkspaceId: 'platformWorkspaceId',
};

/**
 * The version of Wave whose API this server implements for existing clients. They compare it with the version they
 * require: wave-cli requires 1.13.0, which introduced the state of a container request.
 */
export const apiLevel = '1.13.0';

/** Returns the served image in the fields of existing clients. */
export function withServedAliases(served: { readonly image: string; readonly digest?: string }) {
  return { wave: served, waveImage: served.image, waveDigest: served.digest };
}

/** Path segment of the metrics of mounted file systems. */
export const mountedAlias = 'fusion';

/** Returns true for a body with at least one field under the name that other clients send. */
export function usesAliases(body: unknown): boolean {
  if (typeof body !== 'object' || body === null) return false;
  return Object.keys(fieldAliases).some(name => Object.hasOwn(body, name));
}

/** Returns a message with the field names of a client for which {@link usesAliases} is true. */
export function inAliases(message: string): string {
  return Object.entries(fieldAliases).reduce(
    (text, [alias, own]) => text.replaceAll(`'${own}'`, `'${alias}'`),
    message,
  );
}

/** Returns the body with the field names of this API. If a field has both names, the name of this API wins. */
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
