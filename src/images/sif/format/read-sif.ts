import { Fault } from '../../../foundation/fault.ts';
import { type JsonObject, parseJson } from '../../../oci/index.ts';
import { type Architecture, OciSyntaxError } from '../../../oci/naming.ts';
import { brokenSif, RecordReader } from './record.ts';

/** Description of a SIF file, from its own metadata. */
export interface SifDescription {
  /** The version of the format, such as `01`. */
  readonly version: string;
  /** Go's name; undefined if the file does not specify it. */
  readonly architecture: string | undefined;
  /** A UUID. */
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly objects: readonly SifObject[];
  readonly definition: string | undefined;
  /** The output of `apptainer inspect`. */
  readonly metadata: JsonObject | undefined;
  /** The `config` member of the image config; only a file built from an OCI image has it. */
  readonly ociConfig: JsonObject | undefined;
  /** The primary file system; undefined if the file has none, or one that is not a squashfs. */
  readonly squashfs: { readonly offset: number; readonly size: number } | undefined;
}

interface SifObject {
  readonly id: number;
  /** 0 for none. */
  readonly group: number;
  readonly type: keyof typeof typeCodes | 'unknown';
  readonly name: string;
  /** Bytes from the start of the file. */
  readonly offset: number;
  readonly size: number;
}

/** Reads bytes of a file. Returns fewer than requested only at the end of the file. */
export type RangeReader = (offset: number, length: number) => Promise<Buffer>;

// In most files, all data before the file system fits in this one read.
const firstRead = 64 * 1024;
const maxObjects = 1024;
const maxText = 4 * 1024 * 1024;

/**
 * Describes a SIF file without reading its file system. Reads at most a few megabytes. Throws a {@link Fault}
 * if the file is broken or is not a SIF file. Also throws the errors of `read`.
 */
export async function readSif(read: RangeReader): Promise<SifDescription> {
  const start = await read(0, firstRead);
  const bytesAt: BytesAt = async (offset, length, what) => {
    const isThere = offset + length <= start.length;
    const bytes = isThere ? start.subarray(offset, offset + length) : await read(offset, length);
    if (bytes.length < length) brokenSif(`it ends before its ${what} does`);
    return bytes.subarray(0, length);
  };
  const header = readHeader(await bytesAt(0, sifLayout.headerSize, 'header'));
  const descriptors = await readTable(header, bytesAt);
  const system = descriptors.find(({ isSystem }) => isSystem);
  const objects = descriptors.map(({ object }) => object);
  const named = (name: string) =>
    objects.find(object => object.type === 'json' && object.name === name);
  const definition = objects.find(({ type }) => type === 'definition');
  return {
    version: header.version,
    architecture: system?.architecture ?? header.architecture,
    id: header.id,
    createdAt: header.createdAt,
    objects,
    definition: definition && (await readText(definition, 'definition', bytesAt)),
    metadata: await readJson(named(jsonNames.metadata), bytesAt),
    ociConfig: await readJson(named(jsonNames.ociConfig), bytesAt),
    squashfs: system?.isSquashfs
      ? { offset: system.object.offset, size: system.object.size }
      : undefined,
  };
}

type BytesAt = (offset: number, length: number, what: string) => Promise<Buffer>;

interface Header {
  readonly version: string;
  readonly architecture: string | undefined;
  readonly id: string;
  readonly createdAt: number;
  readonly tableOffset: number;
  readonly tableLength: number;
}

function readHeader(bytes: Buffer): Header {
  const reader = new RecordReader(bytes);
  reader.skip(sifLayout.launchSize);
  const { magic } = sifLayout;
  if (reader.bytes(magic.length).toString('latin1') !== magic) {
    throw new Fault(
      'upstream',
      'This is not a SIF file: name one that Singularity or Apptainer has made',
      { phase: 'upstream' },
    );
  }
  const version = reader.text(sifLayout.version.length);
  const architecture = architectureOf(reader.text(3));
  const id = formatUuid(reader.bytes(16));
  const seconds = reader.number('its time');
  reader.skip(2 * 8);
  const tableLength = reader.number('the number of its objects');
  if (tableLength > maxObjects) brokenSif(`it has room for ${tableLength} objects`);
  const tableOffset = reader.number('the place of its table');
  return { version, architecture, id, createdAt: seconds * 1000, tableOffset, tableLength };
}

interface Descriptor {
  readonly object: SifObject;
  readonly isSystem: boolean;
  readonly isSquashfs: boolean;
  readonly architecture: string | undefined;
}

async function readTable(header: Header, bytesAt: BytesAt): Promise<readonly Descriptor[]> {
  const { descriptorSize } = sifLayout;
  const size = header.tableLength * descriptorSize;
  const table = await bytesAt(header.tableOffset, size, 'table of objects');
  return Array.from({ length: header.tableLength }, (_, position) =>
    readDescriptor(table.subarray(position * descriptorSize)),
  ).filter(descriptor => descriptor !== undefined);
}

function readDescriptor(bytes: Buffer): Descriptor | undefined {
  const reader = new RecordReader(bytes);
  const type = typeOf(reader.word());
  const isUsed = reader.bytes(1)[0] !== 0;
  if (!isUsed) return undefined;
  const id = reader.word();
  const group = (reader.word() & ~sifLayout.groupMark) >>> 0;
  reader.skip(4);
  const offset = reader.number('the place of an object');
  const size = reader.number('the size of an object');
  reader.skip(5 * 8);
  const name = reader.text(sifLayout.nameSize);
  const fileSystem = reader.word();
  const isSystem = reader.word() === sifLayout.primarySystem && type === 'partition';
  return {
    object: { id, group, type, name, offset, size },
    isSystem,
    isSquashfs: isSystem && fileSystem === sifLayout.squashfs,
    architecture: isSystem ? architectureOf(reader.text(3)) : undefined,
  };
}

async function readText(object: SifObject, what: string, bytesAt: BytesAt): Promise<string> {
  if (object.size > maxText) brokenSif(`its ${what} has ${object.size} bytes`);
  return (await bytesAt(object.offset, object.size, what)).toString('utf8');
}

async function readJson(
  object: SifObject | undefined,
  bytesAt: BytesAt,
): Promise<JsonObject | undefined> {
  if (object === undefined) return undefined;
  const text = await readText(object, object.name, bytesAt);
  try {
    return parseJson(Buffer.from(text), 'config');
  } catch (error) {
    if (error instanceof OciSyntaxError) brokenSif(`its ${object.name} is not a JSON object`);
    throw error;
  }
}

function typeOf(code: number): SifObject['type'] {
  const types = Object.keys(typeCodes) as (keyof typeof typeCodes)[];
  return types.find(type => typeCodes[type] === code) ?? 'unknown';
}

function architectureOf(code: string): string | undefined {
  return Object.entries(architectureCodes).find(([, known]) => known === code)?.[0];
}

function formatUuid(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/**
 * Layout of a SIF file: a header of 128 bytes, a table of descriptors, then the objects. Numbers are
 * little-endian, and records have no internal padding.
 * Source: Singularity Image Format 1.0, github.com/sylabs/sif, `pkg/sif`.
 */
export const sifLayout = {
  launch: '#!/usr/bin/env run-singularity\n',
  launchSize: 32,
  magic: 'SIF_MAGIC\0',
  version: '01\0',
  headerSize: 128,
  descriptorSize: 585,
  nameSize: 128,
  /** In a new file: position of the table, and the number of objects that fit in it. */
  descriptorsOffset: 4096,
  descriptorCount: 48,
  /** A file system starts at a multiple of this value. */
  alignment: 4096,
  /** A bit pattern that distinguishes group numbers from object numbers. */
  groupMark: 0xf0000000,
  /** Codes of the file system and of the partition kind that a runtime runs. */
  squashfs: 1,
  primarySystem: 2,
  /** Code of the hash of a signature. */
  sha256: 1,
} as const;

/** Codes of the object types. */
export const typeCodes = {
  definition: 0x4001,
  environment: 0x4002,
  labels: 0x4003,
  partition: 0x4004,
  signature: 0x4005,
  json: 0x4006,
  generic: 0x4007,
  cryptography: 0x4008,
  'oci-root-index': 0x4009,
  'oci-blob': 0x400a,
} as const;

/** Names of the JSON objects. */
export const jsonNames = {
  metadata: 'inspect-metadata.json',
  ociConfig: 'oci-config.json',
} as const;

/** Architecture codes by Go's names. */
export const architectureCodes = {
  '386': '01',
  amd64: '02',
  arm: '03',
  arm64: '04',
  ppc64: '05',
  ppc64le: '06',
  mips: '07',
  mipsle: '08',
  mips64: '09',
  mips64le: '10',
  s390x: '11',
  riscv64: '12',
} as const satisfies Readonly<Record<Architecture | (string & {}), string>>;
