import { createHash } from 'node:crypto';
import type { Digest } from '../../oci/digest.ts';
import { type CondaPackage, mayDependOnPython } from '../conda-package.ts';
import type { InstallPlace } from '../installing/installed-package.ts';
import { zstdVersion } from './forms/zstd-writer.ts';
import type { PackageFacts } from './making/package-facts.ts';

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

/**
 * Returns another key that a package's layer may have: of a package that nothing says is for Python, the one without Python.
 * Undefined for other packages.
 */
export function otherLayerKey({ package: it, place }: LayerSubject): string | undefined {
  const isUnsure = mayDependOnPython(it) && it.record?.noarch !== 'python';
  if (!isUnsure || place.python === undefined) return undefined;
  return packageLayerKey({ package: it, place: { ...place, python: undefined } });
}

/**
 * Returns the keys by which other requests look for a layer that was made: by the SHA-256 or by the MD5 of its archive. A
 * package that turned out not to be for Python has them without Python.
 */
export function madeLayerKeys(
  { package: it, place }: LayerSubject,
  { index, sums }: Pick<PackageFacts, 'index' | 'sums'>,
): readonly string[] {
  if (sums === undefined) return [];
  const python = index.noarch === 'python' ? place.python : undefined;
  const { sha256, md5 } = sums;
  return [
    { ...it, sha256 },
    { ...it, sha256: undefined, md5 },
  ].map(known => packageLayerKey({ package: known, place: { ...place, python } }));
}

/** Returns the key of a layer that consists of other layers. */
export function sharedLayerKey(layers: readonly Digest[]): string {
  return keyOf(['shared', layers]);
}

/**
 * Version of everything that another form of a layer depends on, beside the layer: how its table of contents and its members
 * are written. Increase it with each change of the bytes.
 */
const formVersion = 1;

/** Returns the key of a layer in another form than that in which it is made. */
export function formLayerKey(
  digest: Digest,
  { mode, level }: { readonly mode: string; readonly level: number },
): string {
  return keyOf(['form', formVersion, writerOf(mode), level, digest]);
}

/** Names what writes a form: zstd of another version writes other bytes. */
function writerOf(mode: string): string {
  return mode === 'zstd' ? `zstd ${zstdVersion}` : mode;
}

/** Likewise for a layer of a base image. */
const baseVersion = 1;

/**
 * Returns the key of a layer of a base image in another form.
 *
 * @param diffId digest of its tar file: the same bytes may have several, by the type of the layer
 */
export function baseLayerKey(
  digest: Digest,
  diffId: Digest,
  { mode, level }: { readonly mode: string; readonly level: number },
): string {
  return keyOf(['base', baseVersion, writerOf(mode), level, digest, diffId]);
}

/** Returns the key of a layer of the given tar entries. */
export function tarLayerKey(tar: Uint8Array): string {
  return keyOf(['tar', createHash('sha256').update(tar).digest('hex')]);
}

function keyOf(subject: readonly unknown[]): string {
  return createHash('sha256')
    .update(JSON.stringify([layerVersion, ...subject]))
    .digest('hex');
}
