import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { runProgram } from './program.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireEstargz } from './tools.ts';

/** A path of a layer, as the table of contents or a file system has it. */
export interface LazyNode {
  readonly path: string;
  readonly type: string;
  readonly mode: number;
  readonly size: number;
  readonly time: number;
  readonly link?: string;
  readonly links: number;
  readonly sha256?: string;
  readonly chunks?: number;
  /** What packages do not have: the user, the group, their names, the numbers of a device. */
  readonly uid?: number;
  readonly gid?: number;
  readonly user?: string;
  readonly group?: string;
  readonly major?: number;
  readonly minor?: number;
  /** Extended attributes in base64. */
  readonly xattrs?: Readonly<Record<string, string>>;
}

export const tocAnnotation = 'containerd.io/snapshot/stargz/toc.digest';
export const sizeAnnotation = 'io.containers.estargz.uncompressed-size';
/** What the form itself adds to a layer. */
const ownFiles = ['.no.prefetch.landmark', 'stargz.index.json'];

/**
 * Verifies a layer with the library of lazy clients: its footer, the digest of its table of contents, and each chunk. Returns the
 * paths in the table.
 */
export async function verifyEstargz(layer: Uint8Array, tocDigest: string): Promise<LazyNode[]> {
  await using directory = await makeTempDir('estargz');
  const path = directory.join('layer');
  await writeFile(path, layer);
  const result = await runProgram([requireEstargz(), path, tocDigest], { env: {} });
  assert.equal(result.code, 0, result.stderr);
  const lines = result.stdout.split('\n').filter(line => line !== '');
  return lines
    .map(line => JSON.parse(line) as LazyNode)
    .filter(({ path }) => path !== '' && !ownFiles.includes(path));
}

/** Returns the paths of a layer as a client has them that unpacks all of it. */
export async function unpackedNodes(layer: Uint8Array): Promise<LazyNode[]> {
  await using directory = await makeTempDir('unpacked');
  const root = directory.join('root');
  mkdirSync(root);
  execFileSync('tar', ['-xpz', '--no-same-owner', '-C', root], { input: layer });
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .map(entry => join(entry.parentPath, entry.name))
    .map(full => {
      const stat = lstatSync(full);
      const isFile = stat.isFile();
      const type = isFile ? 'reg' : stat.isDirectory() ? 'dir' : 'symlink';
      return {
        ...{ path: relative(root, full), type, mode: stat.mode & 0o7777 },
        ...{ size: isFile ? stat.size : 0, time: Math.floor(stat.mtimeMs / 1000) },
        ...(stat.isSymbolicLink() ? { link: readlinkSync(full) } : {}),
        links: stat.nlink,
        ...(isFile
          ? { sha256: createHash('sha256').update(readFileSync(full)).digest('hex') }
          : {}),
      };
    })
    .filter(({ path }) => !ownFiles.includes(path))
    .sort((one, other) => Buffer.compare(Buffer.from(one.path), Buffer.from(other.path)));
}
