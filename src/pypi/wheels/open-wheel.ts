import { closeSync, fstatSync, openSync } from 'node:fs';
import {
  type ArchiveLimits,
  ArchiveProblem,
  archiveFault,
  archiveLimits,
  checkedPath,
  LargeArchive,
  type PythonPlace,
  readZipMembers,
  showPath,
  usualEntries,
  type ZipMember,
} from '../../conda/installing/index.ts';
import type { AddressedWheel, WheelFile } from '../wheel-file.ts';
import { readCommands } from './entry-points.ts';
import { memberText } from './member-bytes.ts';
import { planWheel, type WheelPath } from './plan-wheel.ts';
import {
  checkMetadata,
  checkWheelVersion,
  readMetadata,
  type WheelMetadata,
} from './wheel-metadata.ts';
import { type RecordedFile, readRecord, type WheelWarnings } from './wheel-record.ts';

/** Where a wheel is installed. */
export interface WheelPlace {
  /** Absolute path of the environment: `/opt/conda`. */
  readonly prefix: string;
  readonly python: PythonPlace;
  /** Paths relative to the prefix that wheels which are installed later have also. Default: none. */
  readonly lostPaths?: readonly string[] | undefined;
}

export interface OpenOptions {
  readonly signal: AbortSignal;
  readonly limits: ArchiveLimits;
  /** True when others are installed at the same time: `LargeArchive` is thrown for one that needs much memory. */
  readonly isShared?: boolean;
}

/** A wheel whose documents were read. */
export interface OpenedWheel {
  readonly metadata: WheelMetadata;
  /** Bytes of the file. */
  readonly size: number;
  /** What is installed, sorted. */
  readonly paths: readonly WheelPath[];
  /** Where `RECORD` is, relative to the prefix. */
  readonly recordPath: string;
  readonly record: ReadonlyMap<string, RecordedFile>;
  /** Absolute path of the interpreter. */
  readonly interpreter: string;
}

const kindBits = 0o170000;
const fileKind = 0o100000;
const directoryKind = 0o040000;
const maxTextBytes = 1024 * 1024;
/** With the description of the package. */
const maxMetadataBytes = 16 * 1024 * 1024;
/** Of the list of members: that of 100,000 has half. */
const maxDirectoryBytes = 32 * 1024 * 1024;

/** Reads the list of a wheel's members and its documents, and plans where it goes. Throws `ArchiveProblem`. */
export async function openWheel(
  fd: number,
  wheel: WheelFile,
  { prefix, python }: WheelPlace,
  {
    signal,
    limits,
    isShared = false,
    warnings,
  }: OpenOptions & { readonly warnings: WheelWarnings },
): Promise<OpenedWheel> {
  const { size } = fstatSync(fd);
  const members = membersOf(fd, size, limits);
  if (isShared && members.size > usualEntries) throw new LargeArchive();
  const stem = stemOf(members);
  const text = async (name: string, maxBytes = maxTextBytes): Promise<string> => {
    const path = `${stem}.dist-info/${name}`;
    const member = members.get(path);
    if (!member) throw new ArchiveProblem(`does not contain ${showPath(path)}`);
    return (await memberText(fd, member, { maxBytes, signal })).toString('utf8');
  };
  checkWheelVersion(await text('WHEEL'));
  const metadata = readMetadata(await text('METADATA', maxMetadataBytes));
  checkMetadata(metadata, wheel);
  const record = readRecord(await text('RECORD', limits.documentBytes), 2 * limits.entries);
  for (const [path, { digest }] of record) {
    const isThere = members.has(path) || members.has(path.replace(/^\//, ''));
    if (digest !== undefined && !isThere) {
      warnings.add(`RECORD lists ${showPath(path)}, which is not there`);
    }
  }
  const hasPoints = members.has(`${stem}.dist-info/entry_points.txt`);
  const interpreter = `${prefix}/bin/python${python.minorVersion.replace(/t$/, '')}`;
  const paths = planWheel({
    members,
    stem,
    name: metadata.name,
    python,
    interpreter,
    commands: readCommands(hasPoints ? await text('entry_points.txt') : '', python.minorVersion),
    directUrl: wheel.directUrl && JSON.stringify(wheel.directUrl),
  });
  const recordPath = `${python.sitePackages}/${stem}.dist-info/RECORD`;
  return { metadata, size, paths, recordPath, record, interpreter };
}

/**
 * Returns the fields of a wheel's `METADATA`, without the description that follows them. Throws a `Fault` for a file that is not the
 * wheel that its name says.
 */
export async function readWheelMetadata(path: string, wheel: AddressedWheel): Promise<string> {
  const fd = openSync(path, 'r');
  try {
    const members = membersOf(fd, fstatSync(fd).size, archiveLimits);
    const name = `${stemOf(members)}.dist-info/METADATA`;
    const member = members.get(name);
    if (!member) throw new ArchiveProblem(`does not contain ${showPath(name)}`);
    const { signal } = new AbortController();
    const bytes = await memberText(fd, member, { maxBytes: maxMetadataBytes, signal });
    const fields = fieldsOf(bytes.toString('utf8'));
    if (fields.length > maxTextBytes) {
      throw new ArchiveProblem(`has metadata of more than ${maxTextBytes} bytes`);
    }
    checkMetadata(readMetadata(fields), wheel);
    return fields;
  } catch (error) {
    const { fileName, url } = wheel;
    throw archiveFault(
      error,
      fileName,
      problem => `the file at ${url} ${problem}. Name the address of a wheel`,
    );
  } finally {
    closeSync(fd);
  }
}

function fieldsOf(metadata: string): string {
  const text = metadata.replaceAll('\r\n', '\n');
  const end = text.indexOf('\n\n');
  return end < 0 ? text : text.slice(0, end + 1);
}

/** Returns the members by their checked paths; those of directories end with a slash. */
function membersOf(
  fd: number,
  archiveBytes: number,
  limits: ArchiveLimits,
): Map<string, ZipMember> {
  const list = readZipMembers(fd, {
    members: limits.entries,
    directoryBytes: Math.min(limits.documentBytes, maxDirectoryBytes),
  });
  const mostBytes = Math.min(
    limits.unpackedBytes,
    Math.max(limits.freeBytes, archiveBytes * limits.ratio),
  );
  let bytes = 0;
  const members = new Map<string, ZipMember>();
  for (const member of list) {
    const { name, size, mode } = member;
    const plain = checkedPath(name);
    const isDirectory = name.endsWith('/');
    const kind = mode & kindBits;
    if (kind !== 0 && kind !== (isDirectory ? directoryKind : fileKind)) {
      throw new ArchiveProblem(`has a member that is not a file, ${showPath(name)}`);
    }
    if (plain === '' || (isDirectory && size > 0)) {
      throw new ArchiveProblem(`has a member without a file name, ${showPath(name)}`);
    }
    bytes += size;
    if (bytes > mostBytes) {
      throw new ArchiveProblem(`has more than ${mostBytes} bytes when it is unpacked`);
    }
    const path = isDirectory ? `${plain}/` : plain;
    if (members.has(path)) throw new ArchiveProblem(`has two members ${showPath(path)}`);
    members.set(path, member);
  }
  return members;
}

/** Returns the beginning of the names of a wheel's own directories, such as `numpy-2.1.0`. */
function stemOf(members: ReadonlyMap<string, ZipMember>): string {
  const stems = new Set<string>();
  for (const path of members.keys()) {
    const stem = /^([^/]+)\.dist-info\//.exec(path)?.[1];
    if (stem !== undefined) stems.add(stem);
  }
  const [stem] = stems;
  if (stem !== undefined && stems.size === 1) return stem;
  throw new ArchiveProblem(
    stem === undefined ? 'has no .dist-info directory' : 'has two .dist-info directories',
  );
}
