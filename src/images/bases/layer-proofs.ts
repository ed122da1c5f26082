import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Digest } from '../../oci/digest.ts';
import type { Descriptor } from '../../oci/index.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { VerifiedLayerStore } from '../../storage/rows/index.ts';
import { credentialKey } from '../../upstream/auth/index.ts';
import type { Access, RegistryClient } from '../../upstream/index.ts';
import { unpackedDigest } from './unpacked-digest.ts';

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
  if (error.status >= 500 || error.kind === 'too-many-requests') return error.retold(message);
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
