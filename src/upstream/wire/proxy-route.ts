/** An HTTP proxy, as specified in an environment variable. */
export interface HttpProxy {
  /** `http:` or `https:` for the connection to the proxy itself; without a name and password. */
  readonly url: URL;
  /** Value of `Proxy-Authorization`, from the name and password in the variable. */
  readonly authorization: string | undefined;
}

/** The route to a host through a proxy. */
export type ProxyRoute =
  /** The proxy receives the request itself. */
  | { readonly kind: 'forward'; readonly proxy: HttpProxy }
  /** The proxy only connects, to `host:port`. */
  | { readonly kind: 'tunnel'; readonly proxy: HttpProxy; readonly target: string };

/** Returns different keys for connections that must not be shared. */
export function routeKey(route: ProxyRoute | undefined): string {
  if (route === undefined) return 'direct';
  return `${route.kind} ${route.proxy.url.origin} ${route.kind === 'tunnel' ? route.target : ''}`;
}
