import { createHash } from 'node:crypto';
import { TarReader } from '../../../archives/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import { createGzipWriter, readMembers } from '../gzip/gzip-members.ts';
import type { FormOrder, MadeLayer } from '../making/layer-threads.ts';
import type { PutPiece } from '../making/piece-ring.ts';
import { EstargzWriter } from './estargz-writer.ts';
import { PieceBuffer } from './piece-buffer.ts';
import { ZstdWriter } from './zstd-writer.ts';

/** What is kept about a layer in the eStargz form. */
export interface EstargzFacts {
  readonly tocDigest: Digest;
  readonly tarBytes: number;
}

/** Writes the tar file of a layer of packages in another form. Blocks the thread. */
export function reformLayer(order: FormOrder, put: PutPiece): MadeLayer {
  const pieces = new PieceBuffer(put);
  const made = writers[order.mode](order, piece => pieces.add(piece));
  pieces.flush();
  return made;
}

function asEstargz({ layer, level }: FormOrder, put: PutPiece): MadeLayer {
  using writer = new EstargzWriter(put, level);
  const reader = new TarReader(writer, { withRights: true });
  for (const { content } of readMembers(layer.path, layer.size)) reader.write(content);
  reader.end();
  const { tarDigest, tarBytes, tocDigest } = writer.end();
  const facts: EstargzFacts = { tocDigest, tarBytes };
  return { tarDigest, tarBytes, about: { facts: JSON.stringify(facts) } };
}

function asZstd(order: FormOrder, put: PutPiece): MadeLayer {
  const zstd = new ZstdWriter(put, order.level);
  const made = asItIs(order, content => zstd.write(content));
  zstd.end();
  return made;
}

/** Writes members of the same bytes. */
function asGzip(order: FormOrder, put: PutPiece): MadeLayer {
  using gzip = createGzipWriter(put, { level: order.level });
  return asItIs(order, content => {
    gzip.write(content);
    gzip.end();
  });
}

/** Writes the same tar file. */
function asItIs({ layer }: FormOrder, write: (content: Buffer) => void): MadeLayer {
  const hash = createHash('sha256');
  let tarBytes = 0;
  for (const { content } of readMembers(layer.path, layer.size)) {
    hash.update(content);
    tarBytes += content.length;
    write(content);
  }
  return { tarDigest: `sha256:${hash.digest('hex')}` as Digest, tarBytes };
}

const writers = { gzip: asGzip, zstd: asZstd, estargz: asEstargz };
