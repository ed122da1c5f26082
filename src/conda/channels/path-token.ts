/**
 * A token in the path of an address, `/t/<token>`. It may stand at any depth: a proxy has its own path in front of it.
 * The host of `https://t/` is not one. Source: conda, `split_anaconda_token`.
 */
const inPath = /(?<!:\/)\/t\/([^/]+)/;
const all = new RegExp(inPath, 'g');

/** Returns whether an address or the name of a channel contains a token. */
export function hasPathToken(text: string): boolean {
  const path = text.replace(/[?#].*$/s, '');
  return inPath.test(path) || /^t\/[^/]/.test(path);
}

/** Returns a path without tokens. */
export function withoutPathTokens(path: string): string {
  return path.replace(all, '');
}

/** Returns the token in a path, as written, and the path in front of it; undefined for a path without one. */
export function pathTokenIn(
  path: string,
): { readonly token: string; readonly above: string } | undefined {
  const found = inPath.exec(path);
  const token = found?.[1];
  return found && token !== undefined ? { token, above: path.slice(0, found.index) } : undefined;
}
