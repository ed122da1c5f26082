import type { Architecture } from '../../../oci/naming.ts';

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
