import { execFileSync } from 'node:child_process';
import { globSync, lstatSync, readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { requireTools, rootDirectory, type Suite } from './tools.ts';

/** What is copied out of the private root of a suite. */
export interface WantedFiles {
  readonly suite: Suite;
  /** These, and what they depend on. */
  readonly packages: readonly string[];
  /** Paths that no package lists because its installation made them, such as `etc/passwd`. */
  readonly besides?: readonly string[];
  /** Whether Debian's essential packages come along. */
  readonly essential: boolean;
}

const database = 'var/lib/dpkg';
const records = ['info/format', 'updates', 'triggers', 'alternatives', 'info'];

/** Copies Debian packages into the directory of an image, as if they had been installed there. */
export async function copyPackages(into: string, wanted: WantedFiles): Promise<void> {
  const { suite, besides = [] } = wanted;
  requireTools([suite]);
  const root = rootDirectory(suite);
  const packages = readPackages(readFileSync(join(root, database, 'status'), 'utf8'));
  const names = withDependencies(packages, wanted);
  const paths = names
    .flatMap(name => [...filesOf(root, name), ...recordsOf(root, name)])
    .filter(path => !/^usr\/share\/(?:doc|info|locale|man)\//.test(path));
  for (const name of ['bin', 'lib', 'lib64', 'sbin']) {
    await mkdir(join(into, 'usr', name), { recursive: true });
    await symlink(`usr/${name}`, join(into, name));
  }
  // A path of a package may lead through a link, such as /bin.
  const script = 'tar -C "$1" --no-recursion -cT - | tar -C "$2" --keep-directory-symlink -x';
  // A link may lead to what is there only in the image.
  const isThere = (path: string) => lstatSync(join(root, path), { throwIfNoEntry: false });
  const made = [...besides, ...records.map(name => join(database, name))];
  const list = [...paths, ...made].filter(isThere);
  execFileSync('sh', ['-c', script, 'sh', root, into], { input: list.join('\n') });
  const status = names.map(name => packages.get(name)?.text).join('\n\n');
  await writeFile(join(into, database, 'status'), `${status}\n\n`);
}

interface Package {
  /** Its paragraph in the database. */
  readonly text: string;
  readonly isEssential: boolean;
  readonly needs: readonly string[];
}

/** What is installed. Source: deb-control(5). */
function readPackages(status: string): Map<string, Package> {
  return new Map(
    status
      .trim()
      .split('\n\n')
      .map(text => {
        const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(text)?.[1] ?? '';
        const needs = `${field('Pre-Depends')}, ${field('Depends')}`.split(',');
        return [field('Package'), { text, isEssential: field('Essential') === 'yes', needs }];
      }),
  );
}

function withDependencies(
  packages: ReadonlyMap<string, Package>,
  { packages: wanted, essential }: WantedFiles,
): string[] {
  const basic = [...packages].filter(([, { isEssential }]) => isEssential && essential);
  const names = new Set([...basic.map(([name]) => name), ...wanted]);
  for (const name of names) {
    for (const alternatives of packages.get(name)?.needs ?? []) {
      const others = alternatives.split('|').map(one => one.trim().replace(/[ :(].*$/, ''));
      const found = others.find(other => packages.has(other));
      if (found !== undefined) names.add(found);
    }
  }
  return [...names];
}

/** The files of a package, from the root. */
function filesOf(root: string, name: string): string[] {
  const list = recordsOf(root, name).find(path => path.endsWith('.list'));
  if (list === undefined) return [];
  const paths = readFileSync(join(root, list), 'utf8').split('\n');
  return paths.map(path => path.slice(1)).filter(path => path !== '' && path !== '.');
}

/** What the database knows of a package, a file each. */
function recordsOf(root: string, name: string): string[] {
  return globSync(`${database}/info/${name}{,:*}.*`, { cwd: root });
}
