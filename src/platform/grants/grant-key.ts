import { createHash } from 'node:crypto';
import type { Endpoint } from '../endpoint.ts';
import type { Grant } from '../workflow-platform.ts';

/**
 * Returns the key under which data of a grant is cached and stored: 43 characters that reveal no token. The refresh
 * token is part of it: tokens renewed with it must not go to a caller who knows only the spent access token.
 */
export function grantKey(endpoint: Endpoint, grant: Grant): string {
  return hashOf([endpoint.id, grant.accessToken, grant.refreshToken ?? '']);
}

/** Returns the key by which a platform counts calls: one token at one platform. */
export function tokenKey(endpoint: Endpoint, token: string): string {
  return hashOf([endpoint.id, token]);
}

function hashOf(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}
