import { Fault } from '../../foundation/fault.ts';
import { withoutSlashes } from '../../foundation/text.ts';

/** Where a channel is that is only known by its name. Source: conda, Managing channels. */
const publicHost = 'https://conda.anaconda.org';
const publicPackages = 'https://repo.anaconda.com/pkgs';

/** A channel without the platforms in brackets, and these platforms. */
interface WrittenChannel {
  readonly channel: string;
  /** Subdirectories that are used; undefined for all. */
  readonly subdirs: readonly string[] | undefined;
}

// Source: conda, `KNOWN_SUBDIRS`.
const subdirAtEnd =
  /(?<=[^/])\/(noarch|(?:linux|osx|win|freebsd|zos|emscripten|wasi)-(?:32|64|aarch64|arm64|armv6l|armv7l|ppc64|ppc64le|riscv64|s390x|wasm32|z))$/;

/** Reads `conda-forge[linux-64,noarch]`, and `conda-forge/linux-64` as conda does. */
export function readWrittenChannel(text: string): WrittenChannel {
  const [, before = text, listed] = /^(.*?)\[([a-z0-9_,-]+)\]$/.exec(text) ?? [];
  const whole = plainBase(before);
  const last = subdirAtEnd.exec(whole)?.[1];
  if (last === undefined) return { channel: whole, subdirs: listed?.split(',') };
  return { channel: whole.slice(0, -last.length - 1), subdirs: listed?.split(',') ?? [last] };
}

/**
 * Returns one form of a name or address: channels that are the same without a configuration have the same. `main` is
 * `pkgs/main`.
 */
export function channelKey(channel: string): string {
  const plain = plainBase(channel);
  return plain === 'main' || plain.startsWith('main/') ? `pkgs/${plain}` : plain;
}

/** Returns the public base URL of a channel that is a name, and the URL itself of one that is a URL. Throws a `Fault`. */
export function publicBase(channel: string): string {
  if (isWebUrl(channel)) return plainBase(channel);
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(channel)) {
    throw new Fault(
      'bad-request',
      `The channel ${channel} has an address that cannot be read: write a name or an http(s) address`,
      { phase: 'request' },
    );
  }
  const key = channelKey(channel);
  if (key.startsWith('pkgs/')) return `${publicPackages}/${key.slice('pkgs/'.length)}`;
  return `${publicHost}/${key}`;
}

/** Returns the name of a channel of the public host by its base URL, and the base URL of any other. */
export function nameOfBase(base: string): string {
  const known = [publicHost, publicPackages].find(host => base.startsWith(`${host}/`));
  return known === undefined ? base : base.slice(known.length + 1);
}

function isWebUrl(channel: string): boolean {
  return /^https?:\/\//i.test(channel) && URL.canParse(channel);
}

/** Returns a base URL in one form: without credentials, tokens, query and slash at the end. A name stays as it is. */
export function plainBase(channel: string): string {
  if (!isWebUrl(channel)) return withoutSlashes(channel);
  const url = new URL(channel);
  const path = withoutSlashes(withoutPathTokens(url.pathname));
  return `${url.origin}${path}`;
}

/** Returns the rest of an address below a base, with its first slash; undefined if the address is elsewhere. */
export function restBelow(base: string, url: string): string | undefined {
  return url.startsWith(`${base}/`) ? url.slice(base.length) : undefined;
}

/**
 * A token in the path of an address, `/t/<token>`. It may stand at any depth: a proxy has its own path in front of it.
 * The host of `https://t/` is not one. Source: conda, `split_anaconda_token`.
 */
const tokenInPath = /(?<!:\/)\/t\/([^/]+)/;
const allTokens = new RegExp(tokenInPath, 'g');

/** Returns whether an address or the name of a channel contains a token. */
export function hasPathToken(text: string): boolean {
  const path = text.replace(/[?#].*$/s, '');
  return tokenInPath.test(path) || /^t\/[^/]/.test(path);
}

/** Returns a path without its `/t/<token>` parts, which must not get into logs and messages. */
function withoutPathTokens(path: string): string {
  return path.replace(allTokens, '');
}

/** Returns the token in a path, as written, and the path in front of it; undefined for a path without one. */
export function pathTokenIn(
  path: string,
): { readonly token: string; readonly above: string } | undefined {
  const found = tokenInPath.exec(path);
  const token = found?.[1];
  return found && token !== undefined ? { token, above: path.slice(0, found.index) } : undefined;
}
