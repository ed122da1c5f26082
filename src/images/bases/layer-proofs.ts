import { PassThrough, pipeline, Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { isTooDense, maxRatio } from '../../archives/tar-limits.ts';
import { ZstdFrames } from '../../archives/zstd-frames.ts';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { Descriptor } from '../../oci/index.ts';
import { bareMediaType } from '../../oci/media-type.ts';
import { type ByteSource, copiesOf } from '../../storage/content/byte-source.ts';
import { createFlowHash, type FlowHash } from '../../storage/hashing/index.ts';
import type { VerifiedLayerStore } from '../../storage/rows/index.ts';
import { credentialKey } from '../../upstream/auth/index.ts';
import type { Access, RegistryClient } from '../../upstream/index.ts';
import { type Compression, compressionIn, isDamage } from '../sif/layers/index.ts';

/** A layer of an image in a repository. */
export interface ProvedLayer {
  readonly access: Access;
  readonly layer: Descriptor & { readonly digest: Digest };
  /** Its name in messages. */
  readonly name: string;
  /** True for a layer that is here for this image: no registry has to show it. */
  readonly isOwn: boolean;
}

/** Proves that a caller may have a layer, and what is in it. */
export interface LayerProofs {
  /**
   * Throws a {@link Fault} unless the registry shows the blob to the caller now. A response is used for a while. It
   * proves a right only where {@link unpacked} has shown that this registry has the bytes.
   */
  show(blob: Omit<ProvedLayer, 'isOwn'>, signal: AbortSignal): Promise<void>;
  /**
   * Returns the digest of the unpacked layer. The registry sends each layer once, for all callers: a registry may claim
   * any blob, and only the bytes prove that it has one.
   *
   * @param onRead called when the layer has to be read
   */
  unpacked(layer: ProvedLayer, signal: AbortSignal, onRead?: () => void): Promise<Digest>;
}

export interface LayerProofsDeps {
  readonly registry: Pick<RegistryClient, 'headBlob'>;
  readonly store: VerifiedLayerStore;
  /** Opens all of a layer: from its registry, which it then keeps a copy of, or from here for an own one. */
  readonly openLayer: (layer: ProvedLayer, signal: AbortSignal) => Promise<ByteSource>;
  /** How long the response of a registry is used (ms). */
  readonly lifeMs: number;
}

const keptResponses = 100_000;
// In the rows. No registry has a name like this.
const ownPlace = 'here';

export function createLayerProofs({
  registry,
  store,
  openLayer,
  lifeMs,
}: LayerProofsDeps): LayerProofs {
  const shown = boundedCache<string, true>(keptResponses, { ttl: lifeMs });
  // Each caller may have other rights than the one whose work failed.
  const asking = new SingleFlight<void>({ sharesFailure: false });
  const reading = new SingleFlight<Digest>({ sharesFailure: false });

  return {
    async show({ access, layer: { digest, size }, name }, signal) {
      const { registry: host, repository, credentials, isService } = access;
      const right = isService ? 'service' : credentialKey(credentials);
      const key = `${host}/${repository} ${digest} ${size} ${right}`;
      if (shown.has(key)) return;
      const ask = async (stop: AbortSignal) => {
        const found = await registry.headBlob(access, digest, stop).catch(error => {
          throw error instanceof Fault ? notShown(name, host, error) : error;
        });
        if (found !== undefined && found !== size) throw otherSize(name, host, found, size);
        shown.set(key, true);
      };
      await asking.run(ask, { key, signal });
    },

    async unpacked(given, signal, onRead = () => {}) {
      const { access, layer, name, isOwn } = given;
      const place = isOwn ? ownPlace : access.registry;
      const known = await store.find(layer.digest, place, Date.now());
      if (known !== undefined) return known;
      onRead();
      const read = async (stop: AbortSignal) => {
        const source = await openLayer(given, stop).catch(error => {
          throw error instanceof Fault ? notShown(name, access.registry, error) : error;
        });
        const diffId = await unpackedDigest(source, layer, name, stop);
        // Without the row, the layer is read again.
        await store.put(layer.digest, place, diffId, Date.now()).catch(() => {});
        return diffId;
      };
      // The size and the type are those of this manifest, and another one may be wrong.
      const key = `${place} ${layer.digest} ${layer.size} ${layer.mediaType}`;
      return reading.run(read, { key, signal });
    },
  };
}

function notShown(name: string, host: string, error: Fault): Fault {
  const message = `${host} does not send ${name}: ${error.message}`;
  if (error.status >= 500 || error.kind === 'too-many-requests') return error.withMessage(message);
  return new Fault(
    'bad-request',
    `${message}. Push the image again, or use credentials that may pull it`,
    { phase: 'build', cause: error },
  );
}

function otherSize(name: string, host: string, found: number, size: number): Fault {
  return new Fault(
    'bad-request',
    `${host} has ${found} bytes for ${name}, not ${size} as its manifest says: push the image again`,
    { phase: 'build' },
  );
}

const pieceBytes = 128 * 1024;
/** No layer of an image in use unpacks to more. */
const mostBytes = 64 * 1024 ** 3;

/**
 * Returns the digest of the tar file in a layer, which is what builders and engines unpack. Reads the source to its end and
 * destroys it. Throws a {@link Fault}: 400 for a layer that cannot be unpacked, 413 for one that unpacks to too much, 502
 * for content with another size or digest than the layer's.
 *
 * @param name name of the layer in messages
 */
export async function unpackedDigest(
  source: ByteSource,
  { digest, size, mediaType }: Descriptor,
  name: string,
  signal: AbortSignal,
): Promise<Digest> {
  const { algorithm, hex } = splitDigest(digest as Digest);
  const packedHash = createFlowHash(algorithm, size);
  const tarHash = createFlowHash('sha256');
  const stop = () => source.destroy(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    signal.throwIfAborted();
    let packed = 0;
    async function* counted(): AsyncGenerator<Buffer> {
      for await (const chunk of copiesOf(source)) {
        packed += chunk.length;
        if (packed > size) throw wrongContent(name);
        await packedHash.update(chunk);
        yield chunk;
      }
      if (packed !== size || (await packedHash.digest()) !== hex) throw wrongContent(name);
    }
    let unpacked = 0;
    for await (const chunk of tarIn(counted(), mediaType, name)) {
      unpacked += chunk.length;
      if (unpacked > mostBytes) throw tooLarge(name, `${mostBytes} bytes`);
      if (isTooDense(packed, unpacked)) throw tooLarge(name, `${maxRatio} times its size`);
      await tarHash.update(chunk);
    }
    return `sha256:${await tarHash.digest()}` as Digest;
  } finally {
    signal.removeEventListener('abort', stop);
    source.destroy();
    for (const hash of [packedHash, tarHash] satisfies FlowHash[]) hash.abort();
  }
}

/** Yields the bytes of the tar file in a layer. */
async function* tarIn(
  packed: AsyncGenerator<Buffer>,
  mediaType: string,
  name: string,
): AsyncGenerator<Buffer> {
  const { head, all } = await beginning(packed);
  const compression = compressionOf(head, mediaType);
  let given = 0;
  async function* passed(): AsyncGenerator<Buffer> {
    for await (const chunk of all) {
      given += chunk.length;
      yield chunk;
    }
  }
  const from = Readable.from(passed(), { objectMode: false });
  const gunzip = compression === 'gzip' ? createGunzip({ chunkSize: pieceBytes }) : undefined;
  // The reader of the last stream receives the error.
  const ignore = () => {};
  const tar =
    compression === 'none'
      ? pipeline(from, new PassThrough(), ignore)
      : gunzip
        ? pipeline(from, gunzip, ignore)
        : pipeline(from, new ZstdFrames(), createZstdDecompress({ chunkSize: pieceBytes }), ignore);
  try {
    yield* tar as AsyncIterable<Buffer>;
  } catch (error) {
    if (isDamage(error)) throw damaged(name, compression, error);
    throw error;
  } finally {
    tar.destroy();
  }
  // zlib ignores bytes after the last member. Builders do not all do so.
  if (gunzip && gunzip.bytesWritten < given) throw damaged(name, compression);
}

/** Returns the first four bytes, and all bytes with them. */
async function beginning(
  bytes: AsyncGenerator<Buffer>,
): Promise<{ head: Buffer; all: AsyncGenerator<Buffer> }> {
  let head = Buffer.alloc(0);
  while (head.length < 4) {
    const { value, done } = await bytes.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  async function* all(): AsyncGenerator<Buffer> {
    if (head.length > 0) yield head;
    yield* bytes;
  }
  return { head, all: all() };
}

/**
 * Returns the compression as builders see it: by the first bytes, but none in a layer whose OCI type says so. A file can be
 * both a gzip file and a tar file. Source: containerd's behaviour, `images.DiffCompression`.
 */
function compressionOf(head: Buffer, mediaType: string): Compression {
  const type = bareMediaType(mediaType) ?? '';
  const isPlain =
    type.startsWith('application/vnd.oci.image.layer.') && !/\+(?:gzip|zstd)$/.test(type);
  return isPlain ? 'none' : compressionIn(head);
}

function wrongContent(name: string): Fault {
  return new Fault(
    'upstream',
    `${name} has another size or digest than its manifest says: push the image again, or try again later`,
    { phase: 'upstream' },
  );
}

function tooLarge(name: string, limit: string): Fault {
  return new Fault('too-large', `${name} unpacks to more than ${limit}: use a smaller image`, {
    phase: 'build',
  });
}

function damaged(name: string, compression: Compression, cause?: unknown): Fault {
  return new Fault(
    'bad-request',
    `${name} cannot be unpacked: its ${compression} data is damaged, cut short, or followed by other bytes. Push the image again`,
    { phase: 'build', cause },
  );
}
