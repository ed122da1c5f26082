/**
 * Where things are in a SIF file: a header of 128 bytes, a table of descriptors, then the objects. Numbers are
 * little-endian, and nothing is padded within a record.
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
  /** In a new file: where the table is, and how many objects it has room for. */
  descriptorsOffset: 4096,
  descriptorCount: 48,
  /** A file system begins at a multiple of it. */
  alignment: 4096,
  /** A bit pattern that tells numbers of groups from those of objects. */
  groupMark: 0xf0000000,
  /** Of the file systems, and of the kinds of partitions, those that are run. */
  squashfs: 1,
  primarySystem: 2,
  /** Of the hashes that a signature can have. */
  sha256: 1,
} as const;

/** What an object is. */
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

/** What the JSON objects are called. */
export const jsonNames = {
  metadata: 'inspect-metadata.json',
  ociConfig: 'oci-config.json',
} as const;

/** Architectures in Go's names. */
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
} as const;
