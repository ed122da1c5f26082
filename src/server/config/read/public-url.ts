import type { Config } from '../settings-schema.ts';

/** Returns the public base URL: `url`, else the address that the server listens on. */
export function publicUrlOf({ url, tls, listen }: Pick<Config, 'url' | 'tls' | 'listen'>): URL {
  return new URL(url ?? (tls.listen === undefined ? `http://${listen}` : `https://${tls.listen}`));
}
