import { newestProjectVersions } from '../pep440-order.ts';
import { projectName } from '../wheel-file.ts';
import { isForImages } from './index-page.ts';

/** A version of a project that an index has. */
export interface ProjectVersion {
  readonly version: string;
  /** True for one with a wheel that an image can use: what has none must be built. */
  readonly hasWheel: boolean;
}

/** Maximum number of versions that are shown. */
export const mostProjectVersions = 40;

const wheel = /^([A-Za-z0-9._]+)-([A-Za-z0-9._+!]+)-.*\.whl$/;
const source = /^(.+)-([A-Za-z0-9._+!]+)\.(?:tar\.gz|zip)$/;

/**
 * Returns the newest versions on a page for the solver, and one more than are shown if there are more. Leaves out those that their author
 * has withdrawn. Only for a thread: a page may have megabytes.
 */
export function versionsInPage(page: Uint8Array): readonly ProjectVersion[] {
  const text = Buffer.from(page.buffer, page.byteOffset, page.length).toString('utf8');
  const { name, files } = JSON.parse(text) as {
    readonly name: string;
    readonly files: readonly { readonly filename: string; readonly yanked?: boolean | string }[];
  };
  const found = new Map<string, boolean>();
  for (const { filename, yanked } of files) {
    const isWheel = filename.endsWith('.whl');
    const [, project = '', version = ''] = (isWheel ? wheel : source).exec(filename) ?? [];
    if (projectName(project) !== projectName(name)) continue;
    if (yanked === true || typeof yanked === 'string') continue;
    found.set(version, (isWheel && isForImages(filename)) || found.get(version) === true);
  }
  return newestProjectVersions(found.keys())
    .slice(0, mostProjectVersions + 1)
    .map(version => ({ version, hasWheel: found.get(version) === true }));
}
