import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { constants, zstdCompressSync } from 'node:zlib';
import { type Entry, tarOf } from '../corpus/layer.ts';
import { requireCommand } from './tools.ts';
import { zipOf } from './zip.ts';

/** Where the packages were made: the longest path that a prefix may have there, as conda's builder does. */
export const placeholder = `/opt/${'placehold_'.repeat(25)}`;

/** What a package is, and what is in it. */
export interface CondaPackage {
  readonly name: string;
  readonly version: string;
  /** Default: `0`. */
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
  /** Default: `conda` (version 2). */
  readonly format?: 'conda' | 'tar.bz2';
  /** Base 2 logarithm of the zstd window of its files, which are searched for copies that far. */
  readonly windowLog?: number;
  /** Names of files that are copied, and not linked. */
  readonly noLink?: readonly string[];
  /** How placeholders are replaced. Default: `binary` in files that contain a zero, otherwise `text`. */
  readonly fileMode?: 'text' | 'binary';
  /** True for a package with the lists of old, before there was `paths.json`. */
  readonly isOld?: boolean;
  /** Further files below `info/`; they replace others of their name. */
  readonly info?: Readonly<Record<string, string>>;
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
  const own: Entry[] = [
    json('index.json', index),
    json('about.json', {}),
    ...(it.isOld ? oldLists(it) : [json('paths.json', { paths_version: 1, paths: pathsOf(it) })]),
    { name: 'info/files', content: files.map(({ name }) => `${name}\n`).join('') },
    ...(it.noarch === 'python'
      ? [json('link.json', linkOf(it)), { name: 'info/noarch', content: 'python\n' }]
      : []),
  ];
  const further = Object.entries(it.info ?? {}).map(([name, content]) => ({
    name: `info/${name}`,
    content,
  }));
  const replaced = new Set(further.map(({ name }) => name));
  const about = [...own.filter(({ name }) => !replaced.has(name)), ...further];
  const bytes =
    format === 'tar.bz2'
      ? execFileSync(requireCommand('bzip2'), { input: await tarOf([...about, ...files]) })
      : zipOf([
          ['metadata.json', Buffer.from('{"conda_pkg_format_version": 2}')],
          [`pkg-${stem}.tar.zst`, compressed(await tarOf(files), it)],
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

function compressed(tar: Buffer, { windowLog }: CondaPackage): Buffer {
  if (windowLog === undefined) return zstdCompressSync(tar);
  return zstdCompressSync(tar, {
    params: {
      [constants.ZSTD_c_compressionLevel]: 1,
      [constants.ZSTD_c_windowLog]: windowLog,
      [constants.ZSTD_c_enableLongDistanceMatching]: 1,
      // With the size, the window of a small package is smaller.
      [constants.ZSTD_c_contentSizeFlag]: 0,
    },
  });
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

function pathsOf({ files = [], noLink = [], fileMode }: CondaPackage): object[] {
  const contents = new Map(files.map(({ name, content }) => [name, content]));
  return files.flatMap(({ name, content, link, hardLink }) => {
    const copied = noLink.includes(name) ? { no_link: true } : {};
    if (link !== undefined) {
      return [{ _path: name, path_type: 'softlink', ...copied, ...summary('') }];
    }
    const bytes = content ?? contents.get(hardLink ?? '');
    if (bytes === undefined) return [];
    const mode = modeOf(bytes);
    const patch = mode ? { prefix_placeholder: placeholder, file_mode: fileMode ?? mode } : {};
    return [{ _path: name, path_type: 'hardlink', ...copied, ...summary(bytes), ...patch }];
  });
}

// In wide characters, of two or four bytes.
const widePlaceholders = [1, 3].map(zeros => [...placeholder].join('\0'.repeat(zeros)));

/** Programs end their strings in a zero. */
function modeOf(content: string | Uint8Array): 'text' | 'binary' | undefined {
  const bytes = Buffer.from(content);
  if (![placeholder, ...widePlaceholders].some(one => bytes.includes(one))) return undefined;
  return bytes.includes(0) ? 'binary' : 'text';
}

function oldLists({ files = [], noLink = [] }: CondaPackage): Entry[] {
  const prefixes = files.flatMap(({ name, content }) => {
    const mode = content === undefined ? undefined : modeOf(content);
    return mode
      ? [`${placeholder} ${mode} ${name.includes(' ') ? JSON.stringify(name) : name}\n`]
      : [];
  });
  return [
    { name: 'info/has_prefix', content: prefixes.join('') },
    { name: 'info/no_link', content: noLink.map(name => `${name}\n`).join('') },
  ];
}

function summary(content: string | Uint8Array) {
  const bytes = Buffer.from(content);
  return {
    sha256: createHash('sha256').update(bytes).digest('hex'),
    size_in_bytes: bytes.length,
  };
}
