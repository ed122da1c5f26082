import type { OfferImage } from '../builds/index.ts';
import type { Documents } from '../images/index.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/index.ts';
import type { ContainerRequest } from '../request/index.ts';
import { createToken, type TokenRegistry, tokenLabel } from '../request/tokens/index.ts';
import { createPulledImage, type PulledImage } from './pulled-image.ts';

/** The images that builders and scanners pull from this server, each under its own token. */
export interface LentImages {
  /** Offers a verified base image to the builder of one build. */
  readonly offer: OfferImage;
  /** Offers the image of a request to a program that reads all of it, under another token. */
  lend(request: ContainerRequest, image: PulledImage): LentImage;
  /** Returns true for a token of a builder or a scanner. */
  has(token: string): boolean;
  /** Returns the image that a token stands for; undefined for other tokens. */
  imageOf(token: string): PulledImage | undefined;
  /** Returns the tokens, with those of builders and scanners. */
  withTokens<T extends Pick<TokenRegistry, 'get' | 'unrevoked'>>(tokens: T): T;
}

/** An image that a program reads until it is disposed of. */
export interface LentImage extends Disposable {
  /** Its repository here. */
  readonly path: string;
  /** Offers a document in addition to the image. It is in memory only: it takes no space of the caller's. */
  add(document: Document): void;
}

export interface LentImagesDeps {
  readonly documents: Pick<Documents, 'local'>;
  /** `host/prefix`: the beginning of every served name. */
  readonly servedNameStart: string;
}

/**
 * The tokens are in the memory of this process, which runs the builds: they end with their build or scan, and no list, count or
 * limit of container requests has them.
 */
export function createLentImages({ documents, servedNameStart }: LentImagesDeps): LentImages {
  const offers = new Map<string, { request: ContainerRequest; image: PulledImage }>();
  return {
    offer({ root, access, repository, digests, manifests }) {
      const token = createToken();
      const image = createPulledImage({
        root,
        access,
        documents,
        owned: digests,
        reader: 'builder',
        onGrow() {},
      });
      for (const manifest of manifests) image.learn(manifest);
      const name = `${servedNameStart}/${token}/${repository}@${root.digest}`;
      const named = { mediaType: root.mediaType, digest: root.digest };
      offers.set(token, {
        image,
        request: {
          token,
          label: tokenLabel(token),
          createdAt: Date.now(),
          expiresAt: Number.POSITIVE_INFINITY,
          caller: { address: '' },
          image: { registry: access.registry, repository, digest: root.digest },
          fixed: { base: named, served: named },
          change: {},
          targetImage: name,
          isMounted: false,
        },
      });
      return { name, [Symbol.dispose]: () => void offers.delete(token) };
    },
    lend(request, image) {
      const token = createToken();
      const label = tokenLabel(token);
      const expiresAt = Number.POSITIVE_INFINITY;
      const more = new Map<Digest, Document>();
      const lent: PulledImage = {
        ...image,
        reader: 'scanner',
        held: digest => more.get(digest),
        async member(digest) {
          const held = more.get(digest);
          if (!held) return image.member(digest);
          const { mediaType, bytes } = held;
          return { digest, mediaType, size: bytes.length, isElsewhere: false };
        },
      };
      offers.set(token, {
        image: lent,
        // Its own clients pull a frozen image under its other name.
        request: { ...request, token, label, expiresAt, isFrozen: false },
      });
      const place = `${servedNameStart}/${token}/${request.image.repository}`;
      return {
        path: place.slice(place.indexOf('/') + 1),
        add: document => void more.set(document.digest, document),
        [Symbol.dispose]: () => void offers.delete(token),
      };
    },
    has: token => offers.has(token),
    imageOf: token => offers.get(token)?.image,
    withTokens: tokens => ({
      ...tokens,
      get: async token => offers.get(token)?.request ?? tokens.get(token),
      unrevoked: async token => offers.get(token)?.request ?? tokens.unrevoked(token),
    }),
  };
}
