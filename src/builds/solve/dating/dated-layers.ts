import { hash } from 'node:crypto';
import { boundedCache } from '../../../foundation/bounded-cache.ts';
import type { InjectedLayer } from '../../../images/augment/index.ts';
import type { PushedLayers } from '../../../images/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import type { TrustDomain } from '../../domain.ts';
import type { LayerCompression } from '../../plan/build-plan.ts';
import { formOf } from './redate-layer.ts';

/** What layers became when they got their dates, by their digests from the builder. */
export interface DatedLayers {
  /**
   * Returns the layers of the builds that share the state of a builder: their callers may see everything in it. A build
   * that shares nothing remembers nothing.
   */
  of(domain: TrustDomain, compression: LayerCompression | undefined): KnownLayers;
}

/** The remembered layers of one domain in one form, for one build. */
export interface KnownLayers {
  /** Where dated layers were pushed to. */
  readonly pushed: PushedLayers;
  /** Returns true for a layer that the builder does not have to send: the build then has the dated one. */
  hold(digest: Digest): Promise<boolean>;
  /** Returns whether a layer has Python code; undefined for an unknown layer. */
  hasPython(digest: Digest): boolean | undefined;
  /**
   * Returns the dated layer, which no sweep removes now.
   *
   * @param python the layers of the image with Python code, if this one has some: its dates depend on all of them
   */
  find(digest: Digest, python: readonly Digest[]): Promise<InjectedLayer | undefined>;
  note(digest: Digest, python: readonly Digest[], layer: InjectedLayer): void;
}

// Some hundred bytes each. The content of a layer that nobody uses is removed after a day.
const mostLayers = 20_000;

export function createDatedLayers(content: Pick<ContentStore, 'claim'>): DatedLayers {
  const createMemory = () => ({
    layers: boundedCache<string, InjectedLayer>(mostLayers),
    python: boundedCache<string, boolean>(mostLayers),
    repositories: boundedCache<string, string>(mostLayers),
  });
  const shared = createMemory();

  return {
    of(domain, compression) {
      const { layers, python: withPython, repositories } = domain.isAlone ? createMemory() : shared;
      const held = new Map<Digest, InjectedLayer>();
      const place = JSON.stringify([domain.name, formOf(compression)]);
      const keyOf = (digest: Digest, python: readonly Digest[]) =>
        hash('sha256', [place, digest, ...python].join(' '), 'base64url');

      const find = async (digest: Digest, python: readonly Digest[]) => {
        const layer = layers.get(keyOf(digest, python));
        return layer && (await content.claim(layer.gzipDigest)) ? layer : undefined;
      };

      return {
        pushed: {
          placeOf(digest, registry) {
            const repository = repositories.get(`${registry} ${keyOf(digest, [])}`);
            return repository === undefined ? undefined : { registry, repository };
          },
          note(digest, { registry, repository }) {
            repositories.set(`${registry} ${keyOf(digest, [])}`, repository);
          },
        },
        async hold(digest) {
          const layer =
            withPython.get(keyOf(digest, [])) === false ? await find(digest, []) : undefined;
          if (layer) held.set(digest, layer);
          return layer !== undefined;
        },
        hasPython: digest => (held.has(digest) ? false : withPython.get(keyOf(digest, []))),
        find: async (digest, python) => held.get(digest) ?? find(digest, python),
        note(digest, python, layer) {
          withPython.set(keyOf(digest, []), python.length > 0);
          layers.set(keyOf(digest, python), layer);
        },
      };
    },
  };
}
