import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip, createZstdDecompress } from 'node:zlib';
import { createSteadyZstd } from '../../../foundation/steady-zstd.ts';
import type { InjectedLayer } from '../../../images/augment/image-change.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { ContentStore } from '../../../storage/content/content-store.ts';
import { createFlowHash } from '../../../storage/hashing/create-flow-hash.ts';
import type { Redating } from './redating.ts';
import { LayerEntries } from './tar-entries.ts';

const chunkSize = 256 * 1024;

/** How a layer is compressed. */
export interface LayerForm {
  readonly mode: 'gzip' | 'zstd';
  readonly level?: number;
}

// Higher levels take windows of memory that readers refuse.
const mostZstd = 19;

function unpack({ mode }: Pick<LayerForm, 'mode'>) {
  return mode === 'zstd' ? createZstdDecompress({ chunkSize }) : createGunzip({ chunkSize });
}

function pack({ mode, level }: LayerForm) {
  if (mode === 'gzip') return createGzip({ chunkSize, ...(level === undefined ? {} : { level }) });
  return createSteadyZstd(level === undefined ? undefined : Math.min(level, mostZstd));
}

/** Reads a layer, and records what later changes of the image's layers require. */
export async function readLayer(
  path: string,
  form: Pick<LayerForm, 'mode'>,
  redating: Redating,
  signal: AbortSignal,
): Promise<void> {
  const entries = new LayerEntries(redating.reader());
  await pipeline(
    createReadStream(path),
    unpack(form),
    async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) entries.pass(chunk);
      entries.end();
    },
    { signal },
  );
}

/** Writes the changed layer to the content store; returns undefined if nothing in it changes. */
export async function redateLayer(
  path: string,
  form: LayerForm,
  redating: Redating,
  content: ContentStore,
  signal: AbortSignal,
): Promise<InjectedLayer | undefined> {
  const visitor = redating.writer();
  const entries = new LayerEntries(visitor);
  const file = await content.ingest();
  const hash = createFlowHash('sha256');
  const take = async (bytes: Buffer): Promise<Buffer> => {
    await hash.update(bytes);
    return bytes;
  };
  try {
    await pipeline(
      createReadStream(path),
      unpack(form),
      async function* change(chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) yield await take(entries.pass(chunk));
        yield await take(entries.end());
      },
      pack(form),
      async (chunks: AsyncIterable<Buffer>) => {
        for await (const chunk of chunks) await file.write(chunk);
      },
      { signal },
    );
    const tarDigest = `sha256:${await hash.digest()}` as Digest;
    if (!visitor.isChanged) {
      await file.abort();
      return undefined;
    }
    const gzipSize = file.size;
    return { gzipDigest: await file.commit(), gzipSize, tarDigest };
  } catch (error) {
    hash.abort();
    await file.abort();
    throw error;
  }
}
