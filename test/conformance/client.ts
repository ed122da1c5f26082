import { type Call, call, type Reply } from '../faults/http-client.ts';

/** A response and the URL that was asked, against which a relative `Location` is resolved. */
export interface ClientResponse extends Reply {
  readonly url: string;
}

/** Makes one request with credentials of some kind. */
export type Send = (url: string, request: Call) => Promise<Reply>;

/** One repository of a registry, as a client sees it. */
export interface Repository {
  readonly name: string;
  /** `target` is a route such as `tags/list`, or the URL that a `Location` stands for. */
  send(method: string, target: string, request?: Omit<Call, 'method'>): Promise<ClientResponse>;
}

export function createRepository(registryUrl: string, name: string, send: Send): Repository {
  return {
    name,
    async send(method, target, request = {}) {
      const url = new URL(target, `${registryUrl}/v2/${name}/`).href;
      return { ...(await send(url, { ...request, method })), url };
    },
  };
}

/** Sends the account with every request, without a challenge. */
export function withBasic(account: string): Send {
  const authorization = `Basic ${Buffer.from(account).toString('base64')}`;
  return (url, request) =>
    call(url, { ...request, headers: { ...request.headers, authorization } });
}
