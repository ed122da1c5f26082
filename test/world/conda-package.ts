import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { zstdCompressSync } from 'node:zlib';
import { type Entry, tarOf } from '../corpus/layer.ts';
import { requireCommand } from './tools.ts';
import { zipOf } from './zip.ts';

/** Where the packages were made: the longest path that a prefix may have there, as conda's builder does. */
export const placeholder = `/opt/${'placehold_'.repeat(25)}`;

/** What a package is, and what is in it. */
export interface CondaPackage {
  readonly name: string;
  readonly version: string;
  /** `0` unless told. */
  readonly build?: string;
  readonly depends?: readonly string[];
  /** Absent for a package that is bound to a platform. */
  readonly noarch?: 'generic' | 'python';
  /** Other members of its index. */
  readonly index?: Readonly<Record<string, unknown>>;
  /** Of a `noarch: python` package: `command = module:function`. */
  readonly entryPoints?: readonly string[];
  /** Paths below the prefix; texts may hold {@link placeholder} where the prefix shall be. */
  readonly files?: readonly Entry[];
  /** `conda` (version 2) unless told. */
  readonly format?: 'conda' | 'tar.bz2';
}

/** A package as it lies in a channel. */
export interface PackedPackage {
  readonly fileName: string;
  readonly subdir: string;
  readonly bytes: Buffer;
  /** What `repodata.json` says of it. */
  readonly record: object;
}

/** Packs a package for this machine's platform. Source: conda, Package specification, versions 1 and 2. */
export async function packPackage(it: CondaPackage): Promise<PackedPackage> {
  const { files = [], format = 'conda' } = it;
  const index = indexOf(it);
  const stem = `${it.name}-${it.version}-${index.build}`;
  const json = (name: string, value: object): Entry => ({
    name: `info/${name}`,
    content: JSON.stringify(value),
  });
  const about: Entry[] = [
    json('index.json', index),
    json('about.json', {}),
    json('paths.json', { paths_version: 1, paths: files.flatMap(pathOf) }),
    { name: 'info/files', content: files.map(({ name }) => `${name}\n`).join('') },
    ...(it.noarch === 'python'
      ? [json('link.json', linkOf(it)), { name: 'info/noarch', content: 'python\n' }]
      : []),
  ];
  const bytes =
    format === 'tar.bz2'
      ? execFileSync(requireCommand('bzip2'), { input: await tarOf([...about, ...files]) })
      : zipOf([
          ['metadata.json', Buffer.from('{"conda_pkg_format_version": 2}')],
          [`pkg-${stem}.tar.zst`, zstdCompressSync(await tarOf(files))],
          [`info-${stem}.tar.zst`, zstdCompressSync(await tarOf(about))],
        ]);
  const sum = (algorithm: string) => createHash(algorithm).update(bytes).digest('hex');
  return {
    fileName: `${stem}.${format}`,
    subdir: index.subdir,
    bytes,
    record: { ...index, size: bytes.length, md5: sum('md5'), sha256: sum('sha256') },
  };
}

/** The subdirectory of channels that is for this machine. */
export const nativeSubdir = process.arch === 'arm64' ? 'linux-aarch64' : 'linux-64';

function indexOf({ name, version, build = '0', depends = [], noarch, index }: CondaPackage) {
  const subdir = noarch === undefined ? nativeSubdir : 'noarch';
  return {
    ...{ name, version, build, build_number: 0, depends, subdir },
    ...(noarch === undefined ? {} : { noarch }),
    ...index,
  };
}

function linkOf({ entryPoints = [] }: CondaPackage): object {
  return {
    package_metadata_version: 1,
    noarch: { type: 'python', entry_points: entryPoints },
  };
}

function pathOf({ name, content, link }: Entry): object[] {
  if (link !== undefined) return [{ _path: name, path_type: 'softlink', ...summary('') }];
  if (content === undefined) return [];
  const isPatched = Buffer.from(content).includes(placeholder);
  const patch = isPatched ? { prefix_placeholder: placeholder, file_mode: 'text' } : {};
  return [{ _path: name, path_type: 'hardlink', ...summary(content), ...patch }];
}

function summary(content: string | Uint8Array) {
  const bytes = Buffer.from(content);
  return {
    sha256: createHash('sha256').update(bytes).digest('hex'),
    size_in_bytes: bytes.length,
  };
}
