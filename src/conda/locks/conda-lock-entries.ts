import {
  explicitLine,
  type LockEntries,
  leftOutOf,
  quoted,
  refuseLine,
  refuseLock,
} from './lock-entries.ts';
import { isOtherForm, lockLines, plainText } from './lock-lines.ts';

/** Returns whether a text is a conda-lock file of version 1. */
export function isCondaLockYml(text: string): boolean {
  return ['version', 'metadata', 'package'].every(member =>
    new RegExp(`^${member}:`, 'm').test(text),
  );
}

type Members = ReadonlyMap<string, string>;

/**
 * Returns the entries of one platform of a conda-lock file. Omits packages of optional categories. Throws a `Fault` (400)
 * with the line. Source: conda-lock, unified lock file.
 */
export function condaLockEntries(name: string, text: string, subdir: string): LockEntries {
  const archives: LockEntries['archives'][number][] = [];
  const pip: LockEntries['pip'][number][] = [];
  const platforms = new Set<string>();
  const leftOut = new Set<string>();
  for (const { line, members } of packagesIn(name, text)) {
    const at = `${name}, line ${line}`;
    const platform =
      members.get('platform') ?? refuseLine(at, 'the package does not name a platform');
    platforms.add(platform);
    const isOptional = members.get('optional') === 'true';
    if (platform !== subdir) continue;
    if (isOptional) {
      leftOut.add(members.get('category') ?? 'optional');
      continue;
    }
    const url = members.get('url') ?? refuseLine(at, 'the package has no address');
    const sha256 = members.get('hash.sha256');
    if (members.get('manager') === 'pip') {
      const hash = sha256 === undefined ? '' : `#sha256=${sha256}`;
      pip.push({ requirement: `${members.get('name')} @ ${url}${hash}`, at });
    } else {
      const sums = { md5: members.get('hash.md5'), sha256 };
      archives.push({ line: explicitLine(url, sums), ...sums, at });
    }
  }
  if (archives.length > 0) return { archives, pip, ...leftOutOf(leftOut) };
  const known = [...platforms].sort().join(', ');
  refuseLock(
    name,
    `locks no package for ${subdir}, only for ${known || 'no platform'}: lock it with 'conda-lock -p ${subdir}', or ask for another 'containerPlatform'`,
  );
}

/** Yields the entries of the list `package`, each with its members; members of `hash` are named `hash.md5` and so on. */
function* packagesIn(
  name: string,
  text: string,
): Generator<{ readonly line: number; readonly members: Members }> {
  let current: { line: number; members: Map<string, string> } | undefined;
  for (const { line, path, key, value, begins } of lockLines(text)) {
    if (path[0] !== 'package' || path[1] !== '-') continue;
    if (begins && path.length === 2) {
      if (current) yield current;
      current = { line, members: new Map() };
    }
    if (key === undefined || !current) continue;
    const isHash = path.length === 3 && path[2] === 'hash';
    if (path.length > 2 && !isHash) continue;
    if (isOtherForm(value) && ['name', 'url', 'platform', 'manager', 'hash'].includes(key)) {
      refuseLine(
        `${name}, line ${line}`,
        `${quoted(`${key}: ${value}`)} does not have the form that conda-lock writes`,
      );
    }
    current.members.set(isHash ? `hash.${key}` : key, plainText(value));
  }
  if (current) yield current;
}
