import { createHash } from 'node:crypto';
import { sifLayout } from '../format/read-sif.ts';
import type { SifSigner } from './signer.ts';

const payloadType = 'application/vnd.sylabs.sif-metadata+json';

/** Positions of fields in a descriptor. */
const [idAt, linkAt, offsetAt, sizeAt, createdAt, ownerAt] = [5, 13, 17, 25, 41, 57] as const;

/**
 * Returns a signature of the complete SIF file for `apptainer verify --key`: a DSSE envelope with the digests of
 * the header, the descriptors and the objects.
 * Sources: github.com/sylabs/sif, `pkg/integrity`; DSSE 1.0, protocol and envelope.
 *
 * @param head all bytes before the file system
 * @param count number of objects; the last one is the file system
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

/** Returns launch script, magic, version and id. The architecture and the times may change and are not signed. */
function protectedHeader(head: Buffer): Buffer {
  const start = sifLayout.launchSize + sifLayout.magic.length + sifLayout.version.length;
  const architecture = 3;
  return Buffer.concat([
    head.subarray(0, start),
    head.subarray(start + architecture, start + architecture + 16),
  ]);
}

/** Returns all fields except position, modification time, and numbers that depend on the rest of the file. */
function protectedFields(record: Buffer, relativeId: number): Buffer {
  const id = Buffer.alloc(4);
  id.writeUInt32LE(relativeId);
  return Buffer.concat([
    ...[record.subarray(0, idAt), id, record.subarray(linkAt, offsetAt)],
    ...[record.subarray(sizeAt, sizeAt + 8), record.subarray(createdAt, createdAt + 8)],
    record.subarray(ownerAt),
  ]);
}

/** Returns the bytes to sign: DSSE's pre-authentication encoding. */
function authenticated(payload: Buffer): Buffer {
  const start = `DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `;
  return Buffer.concat([Buffer.from(start), payload]);
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}
