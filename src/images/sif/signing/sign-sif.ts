import { createHash } from 'node:crypto';
import { sifLayout } from '../format/layout.ts';
import type { SifSigner } from './signer.ts';

const payloadType = 'application/vnd.sylabs.sif-metadata+json';

/** Where fields of a descriptor are. */
const [idAt, linkAt, offsetAt, sizeAt, createdAt, ownerAt] = [5, 13, 17, 25, 41, 57] as const;

/**
 * The signature of everything in a SIF file, which `apptainer verify --key` reads: the digests of the header, the
 * descriptors and the objects in a DSSE envelope.
 * Sources: github.com/sylabs/sif, `pkg/integrity`; DSSE 1.0, protocol and envelope.
 *
 * @param head all bytes before the file system
 * @param count how many objects there are; the last one is the file system
 * @param squashfsDigest SHA-256 of the file system, hex
 */
export function signSif(
  head: Buffer,
  count: number,
  squashfsDigest: string,
  signer: SifSigner,
): Buffer {
  const { descriptorsOffset, descriptorSize } = sifLayout;
  const objects = Array.from({ length: count }, (_, relativeId) => {
    const start = descriptorsOffset + relativeId * descriptorSize;
    const record = head.subarray(start, start + descriptorSize);
    const offset = Number(record.readBigInt64LE(offsetAt));
    const size = Number(record.readBigInt64LE(sizeAt));
    const isLast = relativeId === count - 1;
    return {
      relativeId,
      descriptorDigest: digestOf(protectedFields(record, relativeId)),
      objectDigest: isLast
        ? `sha256:${squashfsDigest}`
        : digestOf(head.subarray(offset, offset + size)),
    };
  });
  const header = { digest: digestOf(protectedHeader(head)) };
  const payload = Buffer.from(JSON.stringify({ version: 1, header, objects }));
  const envelope = {
    payload: payload.toString('base64'),
    payloadType,
    signatures: [{ keyid: '', sig: signer.sign(authenticated(payload)).toString('base64') }],
  };
  return Buffer.from(`${JSON.stringify(envelope)}\n`);
}

/** Launch script, magic, version and id: the architecture and the times between may change. */
function protectedHeader(head: Buffer): Buffer {
  const start = sifLayout.launchSize + sifLayout.magic.length + sifLayout.version.length;
  const architecture = 3;
  return Buffer.concat([
    head.subarray(0, start),
    head.subarray(start + architecture, start + architecture + 16),
  ]);
}

/** All but where it is, when it was changed, and numbers that depend on the rest of the file. */
function protectedFields(record: Buffer, relativeId: number): Buffer {
  const id = Buffer.alloc(4);
  id.writeUInt32LE(relativeId);
  return Buffer.concat([
    ...[record.subarray(0, idAt), id, record.subarray(linkAt, offsetAt)],
    ...[record.subarray(sizeAt, sizeAt + 8), record.subarray(createdAt, createdAt + 8)],
    record.subarray(ownerAt),
  ]);
}

/** What is signed: DSSE's pre-authentication encoding. */
function authenticated(payload: Buffer): Buffer {
  const start = `DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `;
  return Buffer.concat([Buffer.from(start), payload]);
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}
