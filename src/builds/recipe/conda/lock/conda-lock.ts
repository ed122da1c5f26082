import { refuse, shown } from '../../text/refuse.ts';
import { isUrl, plainUrl } from '../../text/web-address.ts';
import type { CondaLock, CondaLockUrl } from '../conda-source.ts';
import { isPackageUrl, readPackageUrl } from '../package-spec.ts';
import { readPipRequirement } from '../pip-requirement.ts';

/** Returns whether a text is an explicit lock file: it has a line `@EXPLICIT`. */
export function isExplicitLock(text: string): boolean {
  return /^@EXPLICIT\s*$/m.test(text);
}

/** Returns whether an item is the address of a lock file and not a package. */
export function isLockUrl(item: string): boolean {
  const text = item.trim();
  return /^https?:\/\//i.test(text) && isUrl(text) && !text.includes('::') && !isPackageUrl(text);
}

/**
 * Reads an explicit lock file. Lines `# pip <requirement>`, as conda-lock writes them, list packages that pip then
 * installs without dependencies. Throws a `Fault` that names the line. Source: conda, Building identical conda
 * environments; conda-lock, explicit files.
 */
export function readExplicitLock(field: string, text: string): CondaLock {
  const urls: string[] = [];
  const pip: string[] = [];
  let isExplicit = false;
  for (const [position, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    const at = `${field}, line ${position + 1}`;
    if (line === '@EXPLICIT') isExplicit = true;
    else if (line.startsWith('# pip ')) pip.push(readPipRequirement(at, line.slice(6)));
    else if (line === '' || line.startsWith('#')) continue;
    else if (!isExplicit) refuse(`'${at}': ${shown(line)} comes before @EXPLICIT: move it below`);
    else urls.push(readPackageUrl(at, line));
  }
  if (urls.length === 0) refuse(`'${field}' locks no package: list their URLs below @EXPLICIT`);
  return { form: 'lock', urls, pip };
}

/** Reads the address of a lock file: http or https, not a git repository. Throws a `Fault`. */
export function readLockUrl(field: string, text: string): CondaLockUrl {
  const url = plainUrl(field, text, ['http', 'https']);
  if (/\.git(?:[?#].*)?$/.test(url)) refuse(`'${field}': ${shown(url)} is a git repository`);
  return { form: 'lockUrl', url };
}
