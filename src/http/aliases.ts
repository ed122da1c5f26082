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

/** Path segment of the metrics of mounted file systems. */
export const mountedAlias = 'fusion';

/** The body with the fields under their names here; a field sent under both keeps the one from here. */
export function withoutAliases(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body;
  const renamed: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(body)) {
    const own = Object.hasOwn(fieldAliases, name) ? fieldAliases[name] : undefined;
    if (own === undefined) renamed[name] = value;
    else renamed[own] ??= value;
  }
  return renamed;
}
