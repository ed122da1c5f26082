import assert from 'node:assert/strict';
import { call, type Reply } from '../faults/http-client.ts';
import type { Send } from './client.ts';

/** The token service in a registry's challenge. */
export interface Challenge {
  readonly realm: string;
  readonly service: string;
  readonly scope: string | undefined;
}

/**
 * Sends every request without credentials first, then with a token for the requested scope, as a client without a cache
 * of tokens does.
 * Source: Docker registry token authentication specification.
 */
export function withTokens(account: string): Send {
  return async (url, request) => {
    const first = await call(url, request);
    if (first.status !== 401) return first;
    const authorization = `Bearer ${await tokenFor(account, challengeOf(first))}`;
    return call(url, { ...request, headers: { ...request.headers, authorization } });
  };
}

export function challengeOf({ headers }: Reply): Challenge {
  const text = String(headers['www-authenticate']);
  assert.match(text, /^Bearer /);
  const found = [...text.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value]);
  const { realm = '', service = '', scope } = Object.fromEntries(found);
  return { realm, service, scope };
}

export async function tokenFor(
  account: string,
  { realm, service, scope }: Challenge,
): Promise<string> {
  const query = new URLSearchParams({ service, ...(scope === undefined ? {} : { scope }) });
  const authorization = `Basic ${Buffer.from(account).toString('base64')}`;
  const response = await call(`${realm}?${query}`, { headers: { authorization } });
  assert.equal(response.status, 200, response.body.toString());
  const { token, access_token } = JSON.parse(response.body.toString());
  assert.ok(token ?? access_token, 'the answer has a token');
  return token ?? access_token;
}
