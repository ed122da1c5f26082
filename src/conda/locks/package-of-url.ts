import { hasPathToken } from '../channels/path-token.ts';
import type { CondaPackage } from '../conda-package.ts';
import { quoted, refuseLine } from './lock-entries.ts';

const archiveName =
  /^(?<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)-(?<version>[A-Za-z0-9_.!+]+)-(?<build>[A-Za-z0-9_.+]+?)(?:\.conda|\.tar\.bz2)$/;
const subdirName = /^(?:noarch|[a-z]+-[a-z0-9_]+)$/;
const maxLength = 8192;

/**
 * Returns the package of a line of an explicit lock file: the URL of an archive, usually with `#` and its MD5 or SHA-256.
 * Throws a `Fault` (400) for another text. Source: conda, Building identical conda environments; CEP 26 (names).
 *
 * @param at the place of the line, for messages
 */
export function packageOfUrl(text: string, at = 'packages'): CondaPackage {
  const hash = text.indexOf('#');
  const url = hash < 0 ? text : text.slice(0, hash);
  const [subdir = '', fileName = ''] = pathOf(url, at).split('/').slice(-2).map(decoded);
  const { name, version, build } = archiveName.exec(fileName)?.groups ?? {};
  if (name === undefined || version === undefined || build === undefined) {
    refuseLine(
      at,
      `${quoted(url)} is not the address of a Conda package: it ends with /<subdirectory>/<name>-<version>-<build>.conda`,
    );
  }
  if (!subdirName.test(subdir)) {
    refuseLine(at, `${quoted(url)} has no subdirectory such as linux-64 or noarch before its name`);
  }
  const checksum = hash < 0 ? '' : text.slice(hash + 1).replace(/^(?:md5|sha256):/, '');
  if (hash >= 0 && !/^[0-9a-f]{32}(?:[0-9a-f]{32})?$/.test(checksum)) {
    refuseLine(at, `${quoted(text.slice(hash))} is not an MD5 or SHA-256 in lower-case hex`);
  }
  return {
    name: name.toLowerCase(),
    version,
    build,
    subdir,
    fileName,
    url,
    buildNumber: Number(/_(\d{1,9})$/.exec(build)?.[1] ?? 0),
    ...(checksum.length === 32 ? { md5: checksum } : {}),
    ...(checksum.length === 64 ? { sha256: checksum } : {}),
    depends: [],
  };
}

/** Returns the path of a web address. Throws a `Fault` for other addresses, and for credentials: a lock file is not secret. */
function pathOf(url: string, at: string): string {
  if (hasPathToken(url)) refuseSecret(at);
  if (!/^https?:\/\/[\x21-\x7e]+$/i.test(url) || url.length > maxLength || !URL.canParse(url)) {
    refuseLine(at, `${quoted(url)} is not an http or https address`);
  }
  const { username, password, pathname } = new URL(url);
  if (username !== '' || password !== '' || hasPathToken(pathname)) refuseSecret(at);
  return pathname;
}

function refuseSecret(at: string): never {
  refuseLine(
    at,
    'the address contains credentials: remove them, and ask the operator to configure the channel',
  );
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
