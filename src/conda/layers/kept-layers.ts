import { Fault } from '../../foundation/fault.ts';
import type { Digest } from '../../oci/digest.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type {
  CachedBlobStore,
  PackageLayerRow,
  PackageLayerStore,
} from '../../storage/rows/index.ts';
import type { AnyOrder, LayerOrder, LayerThreads, MadeLayer } from './making/layer-threads.ts';

/** Layers that were made once and are content. */
export interface KeptLayers<O extends AnyOrder = LayerOrder> {
  /** Returns a layer that is here, and counts it as used, so that no sweep removes it soon. */
  use(key: string): Promise<PackageLayerRow | undefined>;
  /** Returns true for a layer that is here. */
  has(key: string): Promise<boolean>;
  /**
   * Makes a layer and keeps it. It becomes visible only when it is complete.
   *
   * @param written shared memory that receives how far the layer of a package is, as in `PackageProgress`
   */
  make(
    key: string,
    order: O,
    signal: AbortSignal,
    written?: Float64Array,
  ): Promise<PackageLayerRow>;
  /** Returns the paths of a package, as a `PathPacker` has packed them. */
  paths(key: string): Promise<Buffer | undefined>;
  /** Makes a layer known by another key also. */
  alias(key: string, other: string): Promise<void>;
  /** Counts content as used; false when it is not here. */
  claim(digest: Digest): Promise<boolean>;
}

export interface KeptLayersDeps<O extends AnyOrder = LayerOrder> {
  readonly content: ContentStore;
  readonly cachedBlobs: Pick<CachedBlobStore, 'adopt'>;
  readonly rows: PackageLayerStore;
  readonly threads: Pick<LayerThreads<O>, 'run'>;
}

export function createKeptLayers<O extends AnyOrder = LayerOrder>({
  content,
  cachedBlobs,
  rows,
  threads,
}: KeptLayersDeps<O>): KeptLayers<O> {
  const claim = async (digest: Digest): Promise<boolean> => {
    // The cache of upstream blobs may have the same content, and would remove it.
    await cachedBlobs.adopt(digest);
    return content.claim(digest);
  };
  return {
    claim,

    async use(key) {
      const row = await rows.find(key, Date.now());
      return row && (await claim(row.digest)) ? row : undefined;
    },

    async has(key) {
      const row = await rows.find(key, Date.now());
      return row !== undefined && (await content.size(row.digest)) !== undefined;
    },

    async make(key, order, signal, written) {
      const file = await content.ingest();
      try {
        const made = await threads.run(order, piece => file.write(piece), signal, written);
        const { size } = file;
        await cachedBlobs.adopt(file.digest());
        const digest = await file.commit();
        if (!(await content.claim(digest))) throw removedMeanwhile();
        const layer = rowOf(digest, size, made);
        await rows.enter({ key, ...layer, paths: bufferOf(made.about?.paths), at: Date.now() });
        return layer;
      } catch (error) {
        await file.abort();
        throw error;
      }
    },

    paths: rows.paths,

    async alias(key, other) {
      const row = await rows.find(key, Date.now());
      if (!row) return;
      const paths = (await rows.paths(key)) ?? null;
      await rows.enter({ ...row, key: other, paths, at: Date.now() });
    },
  };
}

function rowOf(digest: Digest, size: number, { tarDigest, about }: MadeLayer): PackageLayerRow {
  const facts = about?.facts ?? null;
  return { digest, size, tarDigest, facts, pathHashes: bufferOf(about?.pathHashes) };
}

function bufferOf(bytes: Uint8Array | undefined): Buffer | null {
  return bytes === undefined ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Returns the refusal where the content of a layer cannot be read. */
export function goneMeanwhile(): Fault {
  return new Fault('unavailable', 'The layer of a package is damaged or gone: try again', {
    phase: 'layer',
    retryAfterSeconds: 1,
  });
}

function removedMeanwhile(): Fault {
  return new Fault('unavailable', 'A layer was removed while it was made: try again', {
    phase: 'layer',
    retryAfterSeconds: 1,
  });
}
