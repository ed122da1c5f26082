import { refuse, shown } from '../../text/refuse.ts';
import type { CondaLock } from '../conda-source.ts';
import { readPackageUrl } from '../package-spec.ts';
import { readPipRequirement } from '../pip-requirement.ts';

/** Returns whether a text is a conda-lock file of version 1. */
export function isCondaLockYml(text: string): boolean {
  return ['version', 'metadata', 'package'].every(member =>
    new RegExp(`^${member}:`, 'm').test(text),
  );
}

type Members = ReadonlyMap<string, string>;

/**
 * Reads the packages of one platform from a conda-lock file: the result equals its explicit lock file. Reads it line by
 * line, as conda-lock writes it: it is too large for a synchronous YAML parser. Omits packages of optional categories.
 * Throws a `Fault` (400) with the line. Source: conda-lock, unified lock file.
 *
 * @param subdirs the platforms of the build, by their conda names
 */
export function readCondaLockYml(
  field: string,
  text: string,
  subdirs: readonly string[],
): CondaLock {
  const [subdir, ...others] = subdirs;
  if (subdir === undefined || others.length > 0) {
    refuse(
      `'${field}' is a conda-lock file, and an image can have the packages of one platform only: send a request for each, with 'containerPlatform'`,
    );
  }
  const urls: string[] = [];
  const pip: string[] = [];
  const platforms = new Set<string>();
  for (const { line, members } of packagesIn(field, text)) {
    const at = `${field}, line ${line}`;
    const platform =
      members.get('platform') ?? refuse(`'${at}': the package does not name a platform`);
    platforms.add(platform);
    const isOptional = members.get('optional') === 'true';
    if (platform !== subdir || isOptional) continue;
    const url = members.get('url') ?? refuse(`'${at}': the package has no address`);
    const sha256 = members.get('hash.sha256');
    if (members.get('manager') === 'pip') {
      const hash = sha256 === undefined ? '' : `#sha256=${sha256}`;
      pip.push(readPipRequirement(at, `${members.get('name')} @ ${url}${hash}`));
      continue;
    }
    const hash = members.get('hash.md5') ?? sha256;
    urls.push(readPackageUrl(at, hash === undefined ? url : `${url}#${hash}`));
  }
  if (urls.length > 0) return { form: 'lock', urls, pip };
  const known = [...platforms].sort().join(', ');
  refuse(
    `'${field}' locks no package for ${subdir}, only for ${known || 'no platform'}: lock it with 'conda-lock -p ${subdir}', or ask for another 'containerPlatform'`,
  );
}

/**
 * Yields the entries of the list `package`, each with its members; members of `hash` are named `hash.md5` and so on.
 */
function* packagesIn(
  field: string,
  text: string,
): Generator<{ readonly line: number; readonly members: Members }> {
  let isInside = false;
  let indent = 0;
  let group = '';
  let current: { line: number; members: Map<string, string> } | undefined;
  for (const [position, raw] of text.split('\n').entries()) {
    const line = raw.trimEnd();
    if (line === '' || line.trimStart().startsWith('#')) continue;
    const [, blanks = '', dash, rest = ''] = /^( *)(- )?(.*)$/s.exec(line) ?? [];
    if (blanks === '' && dash === undefined) {
      isInside = line.startsWith('package:');
      continue;
    }
    if (!isInside) continue;
    if (dash !== undefined && (current === undefined || blanks.length === indent)) {
      if (current) yield current;
      current = { line: position + 1, members: new Map() };
      indent = blanks.length;
      group = '';
    } else if (dash !== undefined) continue;
    const depth = blanks.length - indent;
    const [, name, value = ''] = /^([\w.-]+): *(.*)$/.exec(rest) ?? [];
    if (name === undefined || !current) continue;
    if (dash === undefined && depth > 2 && group !== 'hash') continue;
    if (dash === undefined && depth > 2) current.members.set(`hash.${name}`, plain(value));
    else if (value === '') group = name;
    else {
      group = '';
      if (/^[|>&*![{]/.test(value) && ['name', 'url', 'platform', 'manager'].includes(name)) {
        refuse(
          `'${field}, line ${position + 1}': ${shown(line)} does not have the form that conda-lock writes`,
        );
      }
      current.members.set(name, plain(value));
    }
  }
  if (current) yield current;
}

function plain(value: string): string {
  return value.replace(/^(['"])(.*)\1$/, '$2');
}
