import { Fault } from '../../foundation/fault.ts';
import type { InjectedLayer } from '../../images/augment/index.ts';
import type { Digest } from '../../oci/digest.ts';
import type { ContentStore, Ingest } from '../../storage/content/index.ts';
import type { CachedBlobStore, PackageLayerStore } from '../../storage/rows/index.ts';

/** What a builder has changed in an environment: a layer whose bytes are written. */
export interface MadeStep {
  readonly bytes: Ingest;
  readonly tarDigest: Digest;
  /** True if nothing has changed. */
  readonly isEmpty: boolean;
}

export interface KeptStep {
  readonly layer: InjectedLayer;
  readonly isEmpty: boolean;
}

/** Layers that a builder has made above those of packages. They are kept as long as these. */
export interface KeptSteps {
  /** Returns the layer of a key, and counts it as used; undefined where none is here. */
  find(key: string): Promise<KeptStep | undefined>;
  /** Keeps a layer, and removes its bytes when that fails. Resolves when it would survive a power failure. */
  keep(key: string, made: MadeStep): Promise<KeptStep>;
}

export interface KeptStepsDeps {
  readonly content: Pick<ContentStore, 'claim'>;
  readonly cachedBlobs: Pick<CachedBlobStore, 'adopt'>;
  readonly rows: Pick<PackageLayerStore, 'find' | 'enter'>;
}

export function createKeptSteps({ content, cachedBlobs, rows }: KeptStepsDeps): KeptSteps {
  return {
    async find(key) {
      const row = await rows.find(key, Date.now());
      if (!row?.facts) return undefined;
      // The cache of upstream blobs may have the same content, and would remove it.
      await cachedBlobs.adopt(row.digest);
      if (!(await content.claim(row.digest))) return undefined;
      const { isEmpty } = JSON.parse(row.facts) as { isEmpty: boolean };
      const { digest: gzipDigest, size: gzipSize, tarDigest } = row;
      return { layer: { gzipDigest, gzipSize, tarDigest }, isEmpty };
    },

    async keep(key, { bytes, tarDigest, isEmpty }) {
      try {
        const { size } = bytes;
        await cachedBlobs.adopt(bytes.digest());
        const digest = await bytes.commit();
        if (!(await content.claim(digest))) {
          throw new Fault('unavailable', 'A layer was removed while it was made: try again', {
            phase: 'layer',
            retryAfterSeconds: 1,
          });
        }
        const facts = JSON.stringify({ isEmpty });
        const row = { key, digest, size, tarDigest, facts, pathHashes: null, paths: null };
        await rows.enter({ ...row, at: Date.now() });
        return { layer: { gzipDigest: digest, gzipSize: size, tarDigest }, isEmpty };
      } catch (error) {
        await bytes.abort();
        throw error;
      }
    },
  };
}
