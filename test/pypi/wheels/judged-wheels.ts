import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  globSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { tarEnd } from '../../../src/archives/tar-writer.ts';
import { archiveLimits } from '../../../src/conda/archives/archive-checks.ts';
import type { WheelFile } from '../../../src/pypi/wheel-file.ts';
import { type InstalledWheel, installWheel } from '../../../src/pypi/wheels/install-wheel.ts';
import type { WheelPlace } from '../../../src/pypi/wheels/open-wheel.ts';

/** A Python whose wheels are judged. */
export interface JudgePython {
  /** `3.12` */
  readonly minorVersion: string;
  /** Its interpreter. */
  readonly program: string;
  /** Its standard library. */
  readonly library: string;
}

/** Returns the wheel of a file on disk. */
export function wheelAt(path: string): WheelFile {
  const fileName = basename(path);
  const [name = '', version = ''] = fileName.split('-');
  const bytes = readFileSync(path);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { name, version, fileName, url: `https://pypi.example.org/${fileName}`, sha256 };
}

/** Makes an environment without packages: an interpreter, and links to its standard library. */
export function makeEnvironment(prefix: string, { minorVersion, program, library }: JudgePython) {
  const site = join(prefix, `lib/python${minorVersion}/site-packages`);
  mkdirSync(site, { recursive: true });
  mkdirSync(join(prefix, 'bin'));
  cpSync(program, join(prefix, `bin/python${minorVersion}`));
  for (const name of readdirSync(library)) {
    if (/^(?:site|dist)-packages$/.test(name)) continue;
    symlinkSync(join(library, name), join(prefix, `lib/python${minorVersion}`, name));
  }
  for (const path of globSync(join(library, '../libpython*'))) {
    symlinkSync(path, join(prefix, 'lib', basename(path)));
  }
}

/** Installs wheels from a folder by uv. */
export function installByUv(uv: string, prefix: string, folder: string, names: readonly string[]) {
  const [python = ''] = globSync(join(prefix, 'bin/python3.*'));
  execFileSync(
    uv,
    [
      ...['pip', 'install', '--quiet', '--python', python, '--break-system-packages'],
      ...['--no-deps', '--no-index', '--find-links', folder, ...names],
    ],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: {
        ...{ HOME: '/nonexistent', PATH: process.env.PATH, UV_CACHE_DIR: join(folder, '.cache') },
        // Otherwise what it unpacks keeps its links to the cache.
        UV_LINK_MODE: 'copy',
      },
    },
  );
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

/** What uv writes about a wheel that is a file on this machine. */
const judgeNote = 'uv_cache.json';

/** Describes what is in an environment: modes, and digests of files, without what the judge may do differently. */
export function wheelTree(prefix: string): Record<string, string> {
  const tree: Record<string, string> = {};
  const walk = (below: string): void => {
    for (const name of readdirSync(join(prefix, below)).sort()) {
      const path = join(below, name);
      const stat = lstatSync(join(prefix, path));
      const mode = (stat.mode & 0o7777).toString(8);
      if (stat.isSymbolicLink()) tree[path] = `link ${readlinkSync(join(prefix, path))}`;
      else if (stat.isDirectory()) {
        tree[path] = `directory ${mode}`;
        walk(path);
      } else if (name !== judgeNote) {
        // Pip writes RECORD with the mode of other files; uv keeps that of the wheel's own.
        const kept = /\.dist-info\/RECORD$/.test(path) ? '' : `${mode} `;
        tree[path] = `file ${kept}${contentOf(join(prefix, path))}`;
      }
    }
  };
  walk('');
  return tree;
}

function contentOf(path: string): string {
  if (/\.dist-info\/INSTALLER$/.test(path)) return 'the name of the installer';
  if (!/\.dist-info\/RECORD$/.test(path)) {
    return createHash('sha256').update(readFileSync(path)).digest('hex');
  }
  // The two name themselves in INSTALLER.
  return readFileSync(path, 'utf8')
    .replace(/(?<=\/INSTALLER,).*/, '')
    .replace(/^.*\/uv_cache\.json,.*\n/m, '');
}

/** Returns what is in a tree and not in the other one. */
export function withoutTree(tree: Record<string, string>, other: Record<string, string>) {
  return Object.fromEntries(Object.entries(tree).filter(([path]) => !(path in other)));
}
