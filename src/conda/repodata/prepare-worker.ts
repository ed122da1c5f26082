import '../../foundation/gated-zlib.ts';
import { createReadStream, readFileSync } from 'node:fs';
import { type Duplex, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { ZstdFrames } from '../../archives/zstd-frames.ts';
import { type CutTarget, cutRecords, shardFolder } from './shards/cut-records.ts';
import { RepodataError } from './shards/json-records.ts';
import { readShardIndex } from './shards/read-index.ts';
import { ShardPackWriter } from './shards/shard-pack.ts';

/** A downloaded file of repository data, and what is made of it. */
export interface PrepareOrder extends CutTarget {
  readonly source: string;
  readonly form: 'shards' | 'zstd' | 'gzip' | 'plain';
  /** Maximum size of the JSON. */
  readonly maxBytes: number;
}

export type PrepareResponse =
  /** The upstream URL of the shards; absent when all are in the file. */
  | { readonly shards: string | undefined }
  /** What is wrong with the data. */
  | { readonly wrong: string }
  | { readonly code: string | undefined; readonly failed: string };

const pieceBytes = 64 * 1024;

prepare(workerData as PrepareOrder).then(
  shards => respond({ shards }),
  (error: NodeJS.ErrnoException) =>
    respond(
      error instanceof RepodataError
        ? { wrong: error.message }
        : { failed: error.message, code: error.code },
    ),
);

function respond(response: PrepareResponse): void {
  parentPort?.postMessage(response);
}

async function prepare(order: PrepareOrder): Promise<string | undefined> {
  if (order.form === 'shards') return rewriteIndex(order);
  const pieces = createReadStream(order.source, { highWaterMark: pieceBytes });
  const unpacked = upTo(order.maxBytes);
  // An error of the streams is also that of their reader.
  const [, cut] = await Promise.allSettled([
    pipeline([pieces, ...unpackers(order.form), unpacked]),
    cutRecords(unpacked, order),
  ]);
  if (cut.status === 'fulfilled') return undefined;
  const error = cut.reason as NodeJS.ErrnoException;
  if (/^(?:Z_|ZSTD_)/.test(error.code ?? '')) {
    throw new RepodataError('is damaged or incomplete', { cause: error });
  }
  throw error;
}

/** Keeps the index in the same form as that of a channel without shards, with a fixed place for its shards. */
function rewriteIndex({ source, url, subdir, path }: PrepareOrder): string {
  const { archives, shards, digests } = readShardIndex(readFileSync(source), url);
  const pack = new ShardPackWriter(path);
  try {
    for (const [name, digest] of digests) pack.list(name, digest);
    pack.end({ subdir, archives, shards: `${url}/${shardFolder}/` });
  } finally {
    pack.close();
  }
  return shards;
}

function unpackers(form: PrepareOrder['form']): Duplex[] {
  if (form === 'zstd') return [new ZstdFrames(), createZstdDecompress({ chunkSize: pieceBytes })];
  return form === 'gzip' ? [createGunzip({ chunkSize: pieceBytes })] : [];
}

function upTo(limit: number): Transform {
  let size = 0;
  return new Transform({
    highWaterMark: pieceBytes,
    transform(piece: Buffer, _encoding, done) {
      size += piece.length;
      if (size > limit) {
        done(
          new RepodataError(
            `has more than ${limit} bytes: the operator can raise conda.repodata.maxFileBytes`,
          ),
        );
      } else {
        done(null, piece);
      }
    },
  });
}
