import type { S3Client } from '@aws-sdk/client-s3';

/** Returns the proxy for an address: its URL, and its value of `Proxy-Authorization`. Undefined for a direct connection. */
export type StoreProxyFor = (
  url: URL,
) => { readonly url: URL; readonly authorization: string | undefined } | undefined;

/** Sends the requests of a client. */
export type StoreRequests = S3Client['config']['requestHandler'];

type SdkRequest = Parameters<StoreRequests['handle']>[0];

/** Variables of the proxy, as the agents of Node take them. */
type ProxyVariables = { readonly [name in 'HTTP_PROXY' | 'HTTPS_PROXY']: string };

/**
 * Returns a handler that sends each request of the SDK directly or through the proxy for its host. The SDK uses it for the
 * credentials of a role too, which come from another host.
 *
 * @param create makes a handler whose connections pass through a proxy, or are direct ones
 */
export function storeRequests(
  create: (proxy?: ProxyVariables) => StoreRequests,
  proxyFor: StoreProxyFor,
): StoreRequests {
  const direct = create();
  const proxied = new Map<string, StoreRequests>();
  // By protocol and host, so that a request costs a look into a map.
  const chosen = new Map<string, StoreRequests>();

  const choose = (origin: string): StoreRequests => {
    const proxy = proxyFor(new URL(origin));
    const address = proxy && addressOf(proxy);
    if (address === undefined) return direct;
    const known = proxied.get(address) ?? create({ HTTP_PROXY: address, HTTPS_PROXY: address });
    proxied.set(address, known);
    return known;
  };

  const handlerFor = ({ protocol, hostname, port }: SdkRequest): StoreRequests => {
    const origin = `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}`;
    const found = chosen.get(origin) ?? choose(origin);
    chosen.set(origin, found);
    return found;
  };

  return {
    handle: (request, options) => handlerFor(request).handle(request, options),
    destroy() {
      direct.destroy?.();
      for (const handler of proxied.values()) handler.destroy?.();
    },
    // The SDK changes a handler of its own through these two.
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
  };
}

/** Returns the URL of a proxy with its name and password, which Node wants there. */
function addressOf({ url, authorization }: NonNullable<ReturnType<StoreProxyFor>>): string {
  const address = new URL(url);
  if (authorization === undefined) return address.href;
  const login = Buffer.from(authorization.replace(/^Basic /, ''), 'base64').toString();
  const [username = '', ...password] = login.split(':');
  address.username = encodeURIComponent(username);
  address.password = encodeURIComponent(password.join(':'));
  return address.href;
}
