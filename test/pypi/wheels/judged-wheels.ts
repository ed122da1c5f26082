import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { globSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { tarEnd } from '../../../src/archives/tar-writer.ts';
import { archiveLimits } from '../../../src/conda/archives/archive-checks.ts';
import type { WheelFile } from '../../../src/pypi/wheel-file.ts';
import { type InstalledWheel, installWheel } from '../../../src/pypi/wheels/install-wheel.ts';
import type { WheelPlace } from '../../../src/pypi/wheels/open-wheel.ts';

/** Returns the wheel of a file on disk. */
export function wheelAt(path: string): WheelFile {
  const fileName = basename(path);
  const [name = '', version = ''] = fileName.split('-');
  const bytes = readFileSync(path);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { name, version, fileName, url: `https://pypi.example.org/${fileName}`, sha256 };
}

/** An environment of a judge. */
export interface JudgedPlace extends WheelPlace {
  /** Its interpreter. */
  readonly interpreter: string;
}

/** Makes an environment without packages, by uv. */
export function makeEnvironment(uv: string, prefix: string, python = 'python3'): JudgedPlace {
  run(uv, ['venv', '--quiet', '--python', python, prefix]);
  const [interpreter = ''] = globSync(join(prefix, 'bin/python3.*'));
  const minorVersion = basename(interpreter).slice('python'.length);
  const sitePackages = `lib/python${minorVersion}/site-packages`;
  return { prefix, python: { minorVersion, sitePackages }, interpreter };
}

const judgeArguments = ['--no-deps', '--no-index', '--find-links'];

/** Installs wheels from a folder by uv. */
export function installByUv(
  uv: string,
  place: JudgedPlace,
  folder: string,
  names: readonly string[],
) {
  run(uv, [
    ...['pip', 'install', '--quiet', '--python', place.interpreter, '--link-mode', 'copy'],
    ...['--cache-dir', join(place.prefix, '../cache'), ...judgeArguments, folder, ...names],
  ]);
}

/**
 * Installs wheels from a folder by pip.
 *
 * @param pip the wheel of pip
 */
export function installByPip(
  pip: string,
  place: JudgedPlace,
  folder: string,
  names: readonly string[],
) {
  run(place.interpreter, [
    ...[join(pip, 'pip'), 'install', '--quiet', '--no-compile', '--no-cache-dir'],
    ...['--disable-pip-version-check', '--root-user-action', 'ignore'],
    ...[...judgeArguments, folder, ...names],
  ]);
}

function run(program: string, arguments_: readonly string[]): void {
  // Settings of the machine must not matter.
  const env = { HOME: '/nonexistent', PATH: process.env.PATH, PIP_CONFIG_FILE: '/dev/null' };
  execFileSync(program, arguments_, { stdio: ['ignore', 'ignore', 'pipe'], env });
}

/** Installs a wheel as a layer, and unpacks it in a directory. */
export async function installByUs(
  path: string,
  root: string,
  place: WheelPlace,
): Promise<InstalledWheel & { tar: Buffer; paths: readonly string[] }> {
  const chunks: Buffer[] = [];
  const paths: string[] = [];
  const installed = await installWheel(
    path,
    wheelAt(path),
    place,
    { write: bytes => void chunks.push(Buffer.from(bytes)) },
    {
      signal: new AbortController().signal,
      limits: archiveLimits,
      onPath: one => paths.push(one),
    },
  );
  const tar = Buffer.concat([...chunks, tarEnd]);
  mkdirSync(root, { recursive: true });
  execFileSync('tar', ['-xpC', root], { input: tar, maxBuffer: 2 ** 30 });
  return { ...installed, tar, paths };
}

/** Which program the judge is. */
export type Judge = 'uv' | 'pip';

/**
 * Describes what is in an environment: modes, and digests of files, without what the judge may do differently.
 *
 * - `INSTALLER` names the installer. Pip writes `REQUESTED` for packages that were asked for, uv for all.
 * - uv keeps the mode of the wheel's own `RECORD`, notes wheels that are files of this machine, and leaves a lock.
 * - Programs of pip have other text; its `RECORD` has another order.
 * - A virtual environment has another place for headers.
 */
export function wheelTree(prefix: string, judge: Judge): Record<string, string> {
  const tree: Record<string, string> = {};
  const walk = (below: string): void => {
    for (const name of readdirSync(join(prefix, below)).sort()) {
      const path = join(below, name);
      const stat = lstatSync(join(prefix, path));
      const mode = (stat.mode & 0o7777).toString(8);
      if (path === '.lock') continue;
      const shown = path.replace(/^include\/site(?=\/|$)/, 'include');
      if (stat.isSymbolicLink()) tree[shown] = `link ${readlinkSync(join(prefix, path))}`;
      else if (stat.isDirectory()) {
        tree[shown] = `directory ${mode}`;
        walk(path);
      } else if (/\.dist-info\/RECORD$/.test(path)) tree[shown] = recordOf(prefix, path, judge);
      else if (!/\.dist-info\/(?:INSTALLER|REQUESTED|uv_cache\.json)$/.test(path)) {
        tree[shown] = `file ${mode} ${contentOf(prefix, path, judge)}`;
      }
    }
  };
  walk('');
  return tree;
}

function recordOf(prefix: string, path: string, judge: Judge): string {
  const lines = readFileSync(join(prefix, path), 'utf8')
    .replaceAll('/include/site/', '/include/')
    .split(/\r?\n/)
    .filter(line => !/\/(?:INSTALLER|REQUESTED|uv_cache\.json),/.test(line));
  if (judge === 'uv') return lines.join('\n');
  return lines
    .map(line => (line.startsWith('../../../bin/') ? line.replace(/,.*/, '') : line))
    .sort()
    .join('\n');
}

function contentOf(prefix: string, path: string, judge: Judge): string {
  const bytes = readFileSync(join(prefix, path));
  const text = bytes.toString('latin1');
  const isProgram = judge === 'pip' && /^bin\//.test(path) && text.includes('sys.exit(');
  if (!isProgram) return createHash('sha256').update(bytes).digest('hex');
  return text
    .split('\n')
    .filter(line => /^(?:#!|from )|sys\.exit/.test(line))
    .map(line => line.trim())
    .join(' ');
}

/** Returns the paths that two trees have in different ways, and how. */
export function differences(
  theirs: Record<string, string>,
  ours: Record<string, string>,
): Record<string, readonly [theirs: string | undefined, ours: string | undefined]> {
  const paths = [...new Set([...Object.keys(theirs), ...Object.keys(ours)])];
  return Object.fromEntries(
    paths
      .filter(path => theirs[path] !== ours[path])
      .map(path => [path, [theirs[path], ours[path]] as const]),
  );
}

/** Returns what is in a tree and not in the other one. */
export function withoutTree(tree: Record<string, string>, other: Record<string, string>) {
  return Object.fromEntries(Object.entries(tree).filter(([path]) => !(path in other)));
}
