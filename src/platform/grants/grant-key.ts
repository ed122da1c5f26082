import { createHash } from 'node:crypto';
import type { Endpoint } from '../endpoint.ts';
import type { Grant } from '../workflow-platform.ts';

/**
 * What is cached and kept for a grant goes by this: 43 characters that reveal no token. The refresh token is
 * part of it, because tokens that were renewed with it are for nobody who knows the spent access token alone.
 */
export function grantKey(endpoint: Endpoint, grant: Grant): string {
  return hashOf([endpoint.id, grant.accessToken, grant.refreshToken ?? '']);
}

/** What a platform counts the calls of: one token at one platform. */
export function tokenKey(endpoint: Endpoint, token: string): string {
  return hashOf([endpoint.id, token]);
}

function hashOf(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}
