import { PackageURL } from 'packageurl-js';
import { nameOfBase } from '../../channels/channel-address.ts';
import type { BilledPackage } from '../bill.ts';

/** Returns the package URL of a package. Source: purl specification, type `conda`. */
export function purlOf({ name, version, build, url, subdir, fileName }: BilledPackage): string {
  const base = url.slice(0, url.lastIndexOf(`/${subdir}/`));
  const type = fileName.endsWith('.conda') ? 'conda' : 'tar.bz2';
  const qualifiers = { build, channel: nameOfBase(base), subdir, type };
  return new PackageURL('conda', undefined, name, version, qualifiers, undefined).toString();
}
