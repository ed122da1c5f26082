import { type LockEntries, quoted, refuseLine, refuseLock } from './lock-entries.ts';

const mark = '@EXPLICIT';

/** Returns whether a text is an explicit lock file: it has a line `@EXPLICIT`. */
export function isExplicitLock(text: string): boolean {
  return /^@EXPLICIT\s*$/m.test(text);
}

/** Returns whether an explicit lock file has a part for each of several platforms. */
export function hasParts(text: string): boolean {
  return (text.match(/^@EXPLICIT\s*$/gm)?.length ?? 0) > 1;
}

/**
 * Returns the entries of an explicit lock file. Lines `# pip <requirement>`, as conda-lock writes them, list packages that
 * pip then installs without dependencies. A file with several lines `@EXPLICIT` has a part for each platform, that a comment
 * `# platform: <platform>` names. Throws a `Fault` (400) that names the line. Source: conda, Building identical conda
 * environments; conda-lock, explicit files.
 */
export function explicitEntries(name: string, text: string, subdir: string): LockEntries {
  const archives: LockEntries['archives'][number][] = [];
  const pip: LockEntries['pip'][number][] = [];
  const lines = text.split('\n').map(line => line.trim());
  const isParted = hasParts(text);
  const platforms = new Set<string>();
  let platform: string | undefined;
  let isExplicit = false;
  for (const [position, line] of lines.entries()) {
    const at = `${name}, line ${position + 1}`;
    const stated = /^# platform: *([a-z0-9_-]+)$/.exec(line)?.[1];
    if (stated !== undefined) {
      platform = stated;
      platforms.add(stated);
    }
    const isOther = isParted && platform !== subdir;
    if (line === mark) isExplicit = true;
    else if (line.startsWith('# pip ')) {
      if (!isOther) pip.push({ requirement: line.slice(6), at });
    } else if (line === '' || line.startsWith('#')) continue;
    else if (!isExplicit) {
      refuseLine(at, `${quoted(line)} comes before ${mark}: move it below`);
    } else if (!isOther) archives.push({ line, at });
  }
  if (archives.length > 0) return { archives, pip };
  if (!isParted) refuseLock(name, `locks no package: list their URLs below ${mark}`);
  const known = [...platforms].sort().join(', ');
  refuseLock(
    name,
    `locks no package for ${subdir}, only for ${known || 'platforms that no comment names'}: ask for another 'containerPlatform'`,
  );
}
