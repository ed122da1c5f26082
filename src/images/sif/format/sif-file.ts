import type { Architecture } from '../../../oci/naming.ts';
import { goJson } from './oras.ts';
import { architectureCodes, jsonNames, sifLayout, typeCodes } from './read-sif.ts';
import { RecordWriter } from './record.ts';

/** Content of a SIF file, without its file system. */
export interface SifContents {
  /** The definition text that the file records as its source. */
  readonly definition: string;
  /** The output of `apptainer inspect`. */
  readonly inspectMetadata: object;
  /** The `config` member of the OCI image config. */
  readonly ociConfig: object;
  readonly architecture: Architecture;
  /** Milliseconds since the epoch; the file stores whole seconds. */
  readonly createdAt: number;
  /** 16 bytes. */
  readonly id: Uint8Array;
}

interface PlacedObject {
  readonly type: keyof typeof typeCodes;
  readonly name: string;
  readonly offset: number;
  readonly size: number;
  readonly bytes?: Buffer;
}

const { descriptorsOffset, descriptorSize, descriptorCount, alignment } = sifLayout;
const dataOffset = descriptorsOffset + descriptorCount * descriptorSize;

/** Returns the start of the squashfs in bytes: aligned, after the other objects. */
export function squashfsOffset(contents: SifContents): number {
  return align(endOf(placeTexts(contents)));
}

/** Number of objects before a signature. */
export const signedObjects = 4;

/**
 * Returns all bytes before the squashfs. Order and values of the objects match those of `apptainer build`.
 * The same contents give the same bytes.
 *
 * @param squashfsBytes size of the squashfs
 * @param signatureBytes size of the signature after the squashfs, 0 for none
 */
export function sifHead(contents: SifContents, squashfsBytes: number, signatureBytes = 0): Buffer {
  const texts = placeTexts(contents);
  const offset = align(endOf(texts));
  const partition = { type: 'partition', name: '', offset, size: squashfsBytes } as const;
  const end = offset + squashfsBytes;
  const signature = { type: 'signature', name: '', offset: end, size: signatureBytes } as const;
  const objects: readonly PlacedObject[] = [
    ...texts,
    partition,
    ...(signatureBytes > 0 ? [signature] : []),
  ];
  const head = Buffer.alloc(offset);
  writeHeader(head, contents, objects.length, end + signatureBytes - dataOffset);
  let previousEnd = dataOffset;
  for (const [position, object] of objects.entries()) {
    const end = object.offset + object.size;
    const record = head.subarray(descriptorsOffset + position * descriptorSize);
    writeDescriptor(record, position + 1, object, end - previousEnd, contents);
    if (object.bytes) head.set(object.bytes, object.offset);
    previousEnd = end;
  }
  return head;
}

function placeTexts(contents: SifContents): readonly PlacedObject[] {
  const texts = [
    ['definition', '', contents.definition],
    ['json', jsonNames.metadata, goJson(contents.inspectMetadata)],
    ['json', jsonNames.ociConfig, goJson(contents.ociConfig)],
  ] as const;
  let offset = dataOffset;
  return texts.map(([type, name, text]) => {
    const bytes = Buffer.from(text);
    const object = { type, name, offset, size: bytes.length, bytes };
    offset += bytes.length;
    return object;
  });
}

function endOf(objects: readonly PlacedObject[]): number {
  const last = objects.at(-1);
  return last === undefined ? dataOffset : last.offset + last.size;
}

function writeHeader(head: Buffer, contents: SifContents, used: number, dataSize: number): void {
  const { launch, launchSize, magic, version } = sifLayout;
  const writer = new RecordWriter(head);
  writer.text(launch, launchSize);
  writer.text(magic, magic.length);
  writer.text(version, version.length);
  writer.text(codeOf(contents), 3);
  writer.bytes(contents.id, 16);
  const seconds = secondsOf(contents);
  writer.numbers(seconds, seconds, descriptorCount - used, descriptorCount);
  writer.numbers(descriptorsOffset, descriptorCount * descriptorSize, dataOffset, dataSize);
}

/** `paddedSize` counts from the end of the previous object. */
function writeDescriptor(
  record: Buffer,
  id: number,
  object: PlacedObject,
  paddedSize: number,
  contents: SifContents,
): void {
  const { groupMark, nameSize, squashfs, primarySystem, sha256 } = sifLayout;
  // A signature does not belong to a group; it links to the group that it signs.
  const isSignature = object.type === 'signature';
  const [group, link, owner] = isSignature ? [groupMark, groupMark + 1, 0] : [groupMark + 1, 0, 0];
  const writer = new RecordWriter(record);
  writer.word(typeCodes[object.type]);
  writer.bytes(Uint8Array.of(1), 1);
  writer.word(id);
  writer.word(group);
  writer.word(link);
  const seconds = secondsOf(contents);
  writer.numbers(object.offset, object.size, paddedSize, seconds, seconds, owner, owner);
  writer.text(object.name, nameSize);
  if (isSignature) writer.word(sha256);
  if (object.type !== 'partition') return;
  writer.word(squashfs);
  writer.word(primarySystem);
  writer.text(codeOf(contents), 3);
}

function codeOf({ architecture }: SifContents): string {
  return architectureCodes[architecture];
}

function secondsOf({ createdAt }: SifContents): number {
  return Math.floor(createdAt / 1000);
}

function align(offset: number): number {
  return Math.ceil(offset / alignment) * alignment;
}
