/** Address of a builder. */
export type Address =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  /** The builder inside the Docker engine at this socket. */
  | { readonly kind: 'docker'; readonly path: string };

/** Parses `unix:///path`, `tcp://host:port` or `docker+unix:///path`. Throws a `TypeError` for any other text. */
export function parseAddress(text: string): Address {
  const [, scheme = '', rest = ''] = /^([a-z+]+):\/\/(.+)$/.exec(text) ?? [];
  if ((scheme === 'unix' || scheme === 'docker+unix') && rest.startsWith('/')) {
    return { kind: scheme === 'unix' ? 'unix' : 'docker', path: rest };
  }
  if (scheme === 'tcp') {
    const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})\/?$/.exec(rest) ?? [];
    const host = bracketed ?? plain;
    if (host !== undefined && Number(port) > 0 && Number(port) < 65_536) {
      return { kind: 'tcp', host, port: Number(port) };
    }
  }
  throw new TypeError(
    `'${text}' is not the address of a builder: expected unix:///path, tcp://host:port or docker+unix:///path`,
  );
}
