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
   * @param room what the layer may take of the disk. Default: all that is there
   */
  make(
    key: string,
    order: O,
    signal: AbortSignal,
    written?: Float64Array,
    room?: LayerRoom,
  ): Promise<PackageLayerRow>;
  /** Returns the paths of a package, as a `PathPacker` has packed them. */
  paths(key: string): Promise<Buffer | undefined>;
  /** Makes a layer known by another key also. */
  alias(key: string, other: string): Promise<void>;
  /** Counts content as used; false when it is not here. */
  claim(digest: Digest): Promise<boolean>;
}

/** The part of the disk that a caller may fill. */
interface LayerRoom {
  /** Throws a {@link Fault} when there is no room for more bytes. */
  grow(bytes: number): Promise<void>;
  /** Notes that the content is here now, and was not before. */
  keep(digest: Digest): Promise<void>;
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

    async make(key, order, signal, written, room) {
      const file = await content.ingest();
      const take = async (piece: Uint8Array) => {
        await room?.grow(piece.length);
        await file.write(piece);
      };
      try {
        const made = await threads.run(order, take, signal, written);
        const { size } = file;
        const isNew = room !== undefined && (await content.size(file.digest())) === undefined;
        await cachedBlobs.adopt(file.digest());
        const digest = await file.commit();
        if (!(await content.claim(digest))) throw removedMeanwhile();
        if (isNew) await room.keep(digest);
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
