import '../../../foundation/gated-zlib.ts';
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { parentPort, workerData } from 'node:worker_threads';
import { TarError, TarReader } from '../../../archives/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { splitDigest } from '../../../oci/digest.ts';
import { compressionIn, decompressing, isDamage } from '../../sif/layers/index.ts';
import { findWaste } from '../comparing/image-waste.ts';
import { mergeLayers } from '../comparing/merge-layers.ts';
import { buildTree } from '../comparing/tree-builder.ts';
import { DamagedListing } from '../records/byte-codec.ts';
import { packEntries, readEntries } from '../records/entry-file.ts';
import { packTree } from '../records/tree-file.ts';
import { EntryCollector } from './entry-collector.ts';
import type { ListingOrder, ListingPiece, ListingResponse } from './listing-orders.ts';

function respond(message: ListingResponse, moved: readonly ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, [...moved]);
}

/** Yields the bytes that the main thread sends, and says when it may send more. */
async function* received(): AsyncGenerator<Buffer> {
  const waiting: ListingPiece[] = [];
  let wake = () => {};
  parentPort?.on('message', (message: ListingPiece) => {
    waiting.push(message);
    wake();
  });
  for (;;) {
    const next = waiting.shift();
    if (!next) {
      await new Promise<void>(resolve => {
        wake = resolve;
      });
      continue;
    }
    if ('isEnd' in next) return;
    yield Buffer.from(next.piece.buffer);
    respond({ taken: true });
  }
}

/** Passes bytes on and checks their size and digest at the end. Throws a {@link Fault} for wrong content. */
async function* checked(
  pieces: AsyncIterable<Buffer>,
  { digest, size }: Extract<ListingOrder, { kind: 'entries' }>,
): AsyncGenerator<Buffer> {
  const { algorithm, hex } = splitDigest(digest);
  const hash = createHash(algorithm);
  let length = 0;
  for await (const piece of pieces) {
    length += piece.length;
    if (length > size) throw wrongContent();
    hash.update(piece);
    yield piece;
  }
  if (length !== size || hash.digest('hex') !== hex) throw wrongContent();
}

async function listEntries(
  order: Extract<ListingOrder, { kind: 'entries' }>,
): Promise<Buffer<ArrayBuffer>> {
  const pieces = checked(received(), order);
  const head = await startOf(pieces);
  const compression = compressionIn(head);
  const packed = Readable.from(joined(head, pieces), { objectMode: false });
  const collector = new EntryCollector(order.limits);
  const reader = new TarReader(collector, { withRights: true });
  let problem: TarError | undefined;
  try {
    for await (const piece of decompressing(packed, compression)) {
      collector.count(piece.length);
      reader.write(piece);
    }
    reader.end();
    // A decompressor stops before bytes that follow its data: they belong to the digest.
    for await (const _ of pieces);
  } catch (error) {
    if (isDamage(error)) {
      throw unreadable(`its ${compression} data is damaged or cut short`);
    }
    if (error instanceof TarError) problem = error;
    else throw error;
  }
  if (problem) throw unreadable(`it ${problem.message}`);
  return packEntries(collector.take());
}

/** Returns the first bytes, at least four unless there are fewer. */
async function startOf(pieces: AsyncGenerator<Buffer>): Promise<Buffer> {
  let head = Buffer.alloc(0);
  while (head.length < 4) {
    const { value, done } = await pieces.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  return head;
}

/** Leaves the rest open when its reader stops: the digest needs all bytes. */
async function* joined(head: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  if (head.length > 0) yield head;
  for (;;) {
    const { value, done } = await rest.next();
    if (done) return;
    yield value;
  }
}

async function make(order: ListingOrder): Promise<Buffer<ArrayBuffer>> {
  if (order.kind === 'entries') return listEntries(order);
  const { layers } = order;
  const events = mergeLayers(layers.map(path => readEntries(path)));
  if (order.kind === 'waste') return Buffer.from(JSON.stringify(findWaste(layers.length, events)));
  return packTree(buildTree(layers.length - 1, events, order.maxEntries));
}

function unreadable(problem: string): Fault {
  return new Fault('bad-request', `The layer cannot be read: ${problem}`, { phase: 'layer' });
}

function wrongContent(): Fault {
  return new Fault(
    'upstream',
    'The registry returned a layer that does not have the size and digest of its manifest',
    { phase: 'layer' },
  );
}

/** Returns true for a listing that was removed meanwhile. An error loses its code on the way to another thread. */
function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

try {
  const file = await make(workerData as ListingOrder);
  // Small files share their memory with others, and cannot be moved.
  const own = new Uint8Array(file);
  respond({ file: own }, [own.buffer]);
} catch (error) {
  if (error instanceof Fault) {
    const { kind, phase, message } = error;
    respond({ fault: { kind, phase, message } });
  } else if (error instanceof DamagedListing || isAbsent(error)) respond({ isDamaged: true });
  else respond({ error });
}
