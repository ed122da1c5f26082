const here = 'http://sluice.invalid';

/** Returns an address of this server for a redirect; `/` for an address of another host, or for none. */
export function localAddress(text: string | undefined): string {
  // Browsers treat a backslash as a slash, and leave out control characters.
  const url = text?.startsWith('/') ? URL.parse(text, here) : null;
  return url?.origin === here ? url.pathname.replace(/^\/+/, '/') + url.search : '/';
}
