import { createHash } from 'node:crypto';
import { tarEnd } from '../../../archives/tar-writer.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type ArchiveLimits, archiveLimits } from '../../archives/archive-checks.ts';
import { createGzipWriter, type GzipWriter } from '../gzip/gzip-members.ts';
import type { InstallOrder, MadeLayer } from './layer-threads.ts';
import { PathPacker } from './package-facts.ts';
import type { PutPiece } from './piece-ring.ts';

/** Packs the tar entries of a package as a layer. */
export class LayerOutput implements Disposable {
  readonly #gzip: GzipWriter;
  readonly #hash = createHash('sha256');
  #bytes = 0;

  constructor(put: PutPiece) {
    this.#gzip = createGzipWriter(put);
  }

  /** Bytes of the tar file so far. */
  get tarBytes(): number {
    return this.#bytes;
  }

  write(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    this.#hash.update(bytes);
    this.#gzip.write(bytes);
  }

  /** Ends the layer; returns the digest of its tar file. */
  end(): Digest {
    this.#gzip.end();
    // The end of the tar file is a separate gzip member, equal in all layers: `layerEnd`.
    this.write(tarEnd);
    this.#gzip.end();
    return `sha256:${this.#hash.digest('hex')}` as Digest;
  }

  [Symbol.dispose](): void {
    this.#gzip[Symbol.dispose]();
  }
}

/** What installs a package of any kind besides the package itself. */
export interface LayerRun {
  readonly signal: AbortSignal;
  readonly isShared: boolean;
  readonly onPath: (path: string) => void;
  readonly onSize: (bytes: number) => void;
  readonly limits: ArchiveLimits;
}

/**
 * Installs a package as a layer. Throws what `install` throws.
 *
 * @param install writes the tar entries, and returns what is kept about the package
 * @param written receives how far the layer is, as in `PackageProgress`
 */
export async function packLayer(
  { limits, isShared = false }: Pick<InstallOrder, 'limits' | 'isShared'>,
  install: (output: LayerOutput, run: LayerRun) => Promise<object>,
  put: PutPiece,
  written: Float64Array = new Float64Array(2),
): Promise<MadeLayer> {
  using output: LayerOutput = new LayerOutput(piece => {
    written[0] = output.tarBytes;
    put(piece);
  });
  const paths = new PathPacker();
  const facts = await install(output, {
    // The main thread ends this one when nobody waits for the layer.
    signal: new AbortController().signal,
    isShared,
    onPath: path => paths.add(path),
    onSize: bytes => {
      written[1] = bytes;
    },
    limits: { ...archiveLimits, unpackedBytes: limits.maxUnpackedBytes, entries: limits.maxFiles },
  });
  const tarDigest = output.end();
  return {
    tarDigest,
    tarBytes: output.tarBytes,
    about: {
      facts: JSON.stringify(facts),
      pathHashes: paths.hashes(),
      paths: paths.paths(),
    },
  };
}

let endMember: Buffer | undefined;

/**
 * Returns the last gzip member of every layer of packages: the end of the tar file, and nothing else. Without it, a layer
 * is the beginning of a longer one.
 */
export function layerEnd(): Buffer {
  if (endMember === undefined) {
    using gzip = createGzipWriter(bytes => {
      endMember = Buffer.from(bytes);
    });
    gzip.write(tarEnd);
    gzip.end();
  }
  return endMember as unknown as Buffer;
}
