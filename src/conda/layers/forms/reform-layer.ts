import { createHash } from 'node:crypto';
import { TarReader } from '../../../archives/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import { createGzipWriter, mostMemberBytes, readMembers } from '../gzip/gzip-members.ts';
import type { FormOrder, MadeLayer } from '../making/layer-threads.ts';
import type { PutPiece } from '../making/piece-ring.ts';
import { EstargzWriter } from './estargz-writer.ts';

/** What is kept about a layer in the eStargz form. */
export interface EstargzFacts {
  readonly tocDigest: Digest;
  readonly tarBytes: number;
}

/** Writes the tar file of a layer of packages in another form. Blocks the thread. */
export function reformLayer(order: FormOrder, put: PutPiece): MadeLayer {
  const pieces = new PieceBuffer(put);
  const make = order.mode === 'estargz' ? asEstargz : asGzip;
  const made = make(order, piece => pieces.add(piece));
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

/** Writes members of the same bytes. */
function asGzip({ layer, level }: FormOrder, put: PutPiece): MadeLayer {
  using gzip = createGzipWriter(put, { level });
  const hash = createHash('sha256');
  let tarBytes = 0;
  for (const { content } of readMembers(layer.path, layer.size)) {
    hash.update(content);
    tarBytes += content.length;
    gzip.write(content);
    gzip.end();
  }
  return { tarDigest: `sha256:${hash.digest('hex')}` as Digest, tarBytes };
}

/** Gathers short pieces: each file is one, and the main thread would take 100,000 of them one by one. */
class PieceBuffer {
  readonly #bytes = Buffer.allocUnsafeSlow(mostMemberBytes);
  readonly #put: PutPiece;
  #size = 0;

  constructor(put: PutPiece) {
    this.#put = put;
  }

  add(piece: Uint8Array): void {
    if (this.#size + piece.length > this.#bytes.length) this.flush();
    this.#bytes.set(piece, this.#size);
    this.#size += piece.length;
  }

  flush(): void {
    if (this.#size > 0) this.#put(this.#bytes.subarray(0, this.#size));
    this.#size = 0;
  }
}
