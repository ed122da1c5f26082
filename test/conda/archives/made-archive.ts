import { zstdCompressSync } from 'node:zlib';
import { type Entry, tarOf } from '../../corpus/layer.ts';
import { sumOf } from '../../sif/tar-file.ts';
import type { PackedPackage } from '../../world/conda-package.ts';
import { zipOf } from '../../world/zip.ts';

const record = { name: 'made', version: '1', build: '0' };

export interface MadeParts {
  /** The tar file of the files. Default: empty. */
  readonly files?: Buffer;
  /** Paths of `paths.json`. */
  readonly paths?: readonly unknown[];
  /** Further or other files of `info/`. */
  readonly info?: readonly Entry[];
}

/** Packs a version 2 archive of any content, as no builder of packages would. */
export async function madeArchive(parts: MadeParts = {}): Promise<PackedPackage> {
  return packedAs(zipOf(await membersOf(parts)));
}

/** Returns the members of such an archive. */
export async function membersOf({
  files,
  paths = [],
  info = [],
}: MadeParts): Promise<[string, Buffer][]> {
  const documents: Entry[] = [
    { name: 'info/index.json', content: JSON.stringify({ ...record, depends: [] }) },
    { name: 'info/paths.json', content: JSON.stringify({ paths, paths_version: 1 }) },
  ];
  const replaced = new Set(info.map(({ name }) => name));
  const own = documents.filter(({ name }) => !replaced.has(name));
  return [
    ['metadata.json', Buffer.from('{"conda_pkg_format_version": 2}')],
    ['pkg-made-1-0.tar.zst', zstdCompressSync(files ?? (await tarOf([])))],
    ['info-made-1-0.tar.zst', zstdCompressSync(await tarOf([...own, ...info]))],
  ];
}

/** Returns bytes as the archive of a package. */
export function packedAs(bytes: Buffer, format: '.conda' | '.tar.bz2' = '.conda'): PackedPackage {
  return { fileName: `made-1-0${format}`, subdir: 'noarch', bytes, record };
}

/** Returns a tar file with entries of any names and kinds; each has one block of content if it has a size. */
export function rawTar(
  entries: readonly { name: string; type?: string; link?: string; size?: number; body?: string }[],
): Buffer {
  const blocks = entries.flatMap(
    ({ name, type = '0', link = '', body = '', size = body.length }) => {
      const block = Buffer.alloc(512);
      block.write(name, 0);
      block.write('0000644', 100);
      block.write('0000000', 108);
      block.write('0000000', 116);
      block.write(size.toString(8).padStart(11, '0'), 124);
      block.write('00000000000', 136);
      block.write(type, 156);
      block.write(link, 157);
      block.write('ustar\x0000', 257);
      block.fill(0x20, 148, 156);
      const sum = sumOf(block);
      block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
      const content = Buffer.alloc(Math.ceil(body.length / 512) * 512);
      content.write(body);
      return [block, content];
    },
  );
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** Returns what `paths.json` says of a path. */
export function listed(path: string, type = 'hardlink', more: object = {}): object {
  return { _path: path, path_type: type, ...more };
}
