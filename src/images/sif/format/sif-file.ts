import { goJson } from './go-json.ts';
import { architectureCodes, jsonNames, sifLayout, typeCodes } from './layout.ts';
import { RecordWriter } from './record.ts';

/** What a SIF file holds beside its file system. */
export interface SifContents {
  /** The definition text that the image is said to be made from. */
  readonly definition: string;
  /** What `apptainer inspect` prints. */
  readonly inspectMetadata: object;
  /** The `config` member of the OCI image config. */
  readonly ociConfig: object;
  readonly architecture: 'amd64' | 'arm64';
  /** Milliseconds since the epoch; the file tells whole seconds. */
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

/** Where the squashfs begins, in bytes: aligned, behind the other objects. */
export function squashfsOffset(contents: SifContents): number {
  return align(endOf(placeTexts(contents)));
}

/** How many objects there are before a signature. */
export const signedObjects = 4;

/**
 * All bytes before the squashfs, which is that long in bytes. Order and values of the objects are those of
 * `apptainer build`; the same contents give the same bytes.
 *
 * @param signatureBytes length of the signature behind the squashfs, 0 for none
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

/** The padded size counts from the end of the object before. */
function writeDescriptor(
  record: Buffer,
  id: number,
  object: PlacedObject,
  paddedSize: number,
  contents: SifContents,
): void {
  const { groupMark, nameSize, squashfs, primarySystem, sha256 } = sifLayout;
  // A signature is in no group, and is of one.
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
