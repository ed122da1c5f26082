import { createHash } from 'node:crypto';
import type { Digest } from '../../oci/digest.ts';
import type { CondaPackage } from '../conda-package.ts';
import type { InstallPlace } from '../installing/installed-package.ts';

/**
 * Version of everything that the bytes of a layer depend on, beside the package and its place: how a package is
 * installed, the tar entries, the compression. Increase it with each change of the bytes.
 */
const layerVersion = 1;

/** What the layer of a package is made of. */
export interface LayerSubject {
  readonly package: CondaPackage;
  readonly place: InstallPlace;
}

/**
 * Returns the key of a package's layer, known before the layer is made. An archive without a digest is known by its URL,
 * which is also part of what is installed. Packages that are not `noarch: python` do not depend on Python.
 */
export function packageLayerKey({ package: it, place }: LayerSubject): string {
  const archive = it.sha256 ?? (it.md5 === undefined ? null : `md5:${it.md5}`);
  const python = mayDependOnPython(it) ? place.python : undefined;
  return keyOf([
    'package',
    ...[archive, it.url, place.prefix, place.lostPaths ?? []],
    python ? [python.minorVersion, python.sitePackages] : null,
  ]);
}

/** Returns the key of a layer that consists of other layers. */
export function sharedLayerKey(layers: readonly Digest[]): string {
  return keyOf(['shared', layers]);
}

/** Returns the key of a layer of the given tar entries. */
export function tarLayerKey(tar: Uint8Array): string {
  return keyOf(['tar', createHash('sha256').update(tar).digest('hex')]);
}

/** True for `noarch: python` packages. A lock file does not say which of the `noarch` packages are. */
export function mayDependOnPython({ subdir, record }: CondaPackage): boolean {
  return subdir === 'noarch' && (record === undefined || record.noarch === 'python');
}

function keyOf(subject: readonly unknown[]): string {
  return createHash('sha256')
    .update(JSON.stringify([layerVersion, ...subject]))
    .digest('hex');
}
