import assert from 'node:assert/strict';
import { type Call, call, type Reply } from '../../faults/http-client.ts';
import { type Sluice, startSluice } from '../../world/sluice.ts';

export const administrator = basic('admin', 'admin-s3cret');

/** A server with its built-in platform, over HTTP. */
export interface PlatformServer extends AsyncDisposable {
  readonly sluice: Sluice;
  /** Sends one call below `/platform`. A body that is not a string is sent as JSON. */
  ask(method: string, path: string, authorization?: string, body?: unknown): Promise<Reply>;
  /** Returns the JSON response, which must be a success. Default caller: an administrator. */
  must<T>(method: string, path: string, body?: unknown, authorization?: string): Promise<T>;
  /** A new user; returns the value of `Authorization`. */
  makeUser(email: string): Promise<{ id: number; authorization: string; accessToken: string }>;
}

export function basic(name: string, password: string): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
}

export async function startPlatformServer(): Promise<PlatformServer> {
  const sluice = await startSluice({
    config: {
      platform: { aliases: { 'https://api.cloud.seqera.io': 'built-in' } },
      accounts: {
        admin: 'admin-s3cret',
        ci: { password: 'word', repositories: { 'team/*': 'push' } },
      },
    },
  });
  const ask: PlatformServer['ask'] = (method, path, authorization, body) => {
    const request: Call = {
      method,
      headers: {
        ...(authorization === undefined ? {} : { authorization }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    };
    return call(`${sluice.url}/platform${path}`, request);
  };
  const must: PlatformServer['must'] = async (method, path, body, authorization) => {
    const reply = await ask(method, path, authorization ?? administrator, body);
    assert.equal(reply.status, 200, `${method} ${path}: ${reply.body}`);
    return jsonOf(reply);
  };
  return {
    sluice,
    ask,
    must,
    async makeUser(email) {
      const { user } = await must<{ user: { id: number } }>('POST', '/users', { email });
      const { accessKey } = await must<{ accessKey: string }>('POST', '/tokens', {
        user: email,
        name: 'test',
      });
      return { id: user.id, accessToken: accessKey, authorization: `Bearer ${accessKey}` };
    },
    [Symbol.asyncDispose]: sluice.stop,
  };
}

// biome-ignore lint/suspicious/noExplicitAny: answers are what they are; each test looks at its own
export function jsonOf(reply: Reply): any {
  return JSON.parse(reply.body.toString('utf8'));
}
