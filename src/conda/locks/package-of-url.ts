import { Fault } from '../../foundation/fault.ts';
import type { CondaPackage } from '../conda-package.ts';

const archiveName = /^(?<name>[^/]+)-(?<version>[^-/]+)-(?<build>[^-/]+?)(?:\.conda|\.tar\.bz2)$/;

/**
 * Returns the package of a line of an explicit lock file: the URL of an archive, usually with `#` and its MD5 or SHA-256.
 * Throws a `Fault` (400) for another URL. Source: conda, Building identical conda environments; CEP 26 (names).
 */
export function packageOfUrl(text: string): CondaPackage {
  const [url = '', checksum = ''] = text.split('#', 2);
  const { pathname } = new URL(url);
  const [subdir = '', fileName = ''] = pathname.split('/').slice(-2).map(decodeURIComponent);
  const { name, version, build } = archiveName.exec(fileName)?.groups ?? {};
  if (name === undefined || version === undefined || build === undefined || subdir === '') {
    throw new Fault(
      'bad-request',
      `${url} is not the address of a Conda package: it ends with /<subdirectory>/<name>-<version>-<build>.conda`,
      { phase: 'request' },
    );
  }
  const hash = checksum.replace(/^(?:md5|sha256):/, '');
  return {
    ...{ name, version, build, subdir, fileName, url },
    buildNumber: Number(/_?(\d+)$/.exec(build)?.[1] ?? 0),
    ...(hash.length === 32 ? { md5: hash } : {}),
    ...(hash.length === 64 ? { sha256: hash } : {}),
    depends: [],
  };
}
