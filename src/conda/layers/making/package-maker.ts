import type { PackageLayerRow } from '../../../storage/rows/images/package-layer-rows.ts';
import { Turns } from '../../../upstream/transport/turns.ts';
import type { FetchArchive } from '../fetching/archive-fetch.ts';
import type { KeptLayers } from '../kept-layers.ts';
import { type LayerSubject, packageLayerKey } from '../layer-key.ts';
import type { UnpackLimits } from './layer-orders.ts';
import type { PackageFacts } from './package-facts.ts';
import { createSharedWork } from './shared-work.ts';

/** The layer of one package. */
export interface PackageLayer extends PackageLayerRow {
  readonly key: string;
  readonly subject: LayerSubject;
  readonly facts: string;
  /** Bytes of the archive that was fetched for it now; undefined for a layer that was here. */
  readonly fetchedBytes?: number | undefined;
}

/** Returns the layer of a package, which is made when it is not here. One caller's work serves all that wait for it. */
export type MakePackage = (subject: LayerSubject, signal: AbortSignal) => Promise<PackageLayer>;

export interface PackageMakerDeps {
  readonly kept: KeptLayers;
  readonly fetchArchive: FetchArchive;
  readonly limits: UnpackLimits;
}

// Archives of one host on this machine or on their way: more than are installed at once, so that the threads have work.
const archivesAtOnce = 8;
// A build ends by its own limit of time.
const longestWaitMs = 2 ** 31 - 1;

export function createPackageMaker({ kept, fetchArchive, limits }: PackageMakerDeps): MakePackage {
  const share = createSharedWork<PackageLayerRow & { fetchedBytes: number }>();
  const turns = new Turns(archivesAtOnce);

  const make = async (key: string, subject: LayerSubject, signal: AbortSignal) => {
    const endTurn = await turns.take(new URL(subject.package.url).host, longestWaitMs, signal);
    try {
      await using archive = await fetchArchive(subject.package, signal);
      const fetchedBytes = archive.size;
      // A package without a SHA-256 may have been made for one with it.
      const { sha256 } = archive;
      const known = packageLayerKey({ ...subject, package: { ...subject.package, sha256 } });
      const before = known === key ? undefined : await kept.use(known);
      const order = { kind: 'package', subject, archive: archive.path, limits } as const;
      const layer = before ?? (await kept.make(known, order, signal));
      if (known !== key) await kept.alias(known, key);
      return { ...layer, fetchedBytes };
    } finally {
      endTurn();
    }
  };

  return async (subject, signal) => {
    const key = packageLayerKey(subject);
    const layer =
      (await kept.use(key)) ?? (await share(key, signal, stop => make(key, subject, stop)));
    return { ...layer, key, subject, facts: layer.facts ?? '{}' };
  };
}

/** Returns what is known about a package whose layer is here. */
export function factsOf({ facts }: PackageLayer): PackageFacts {
  return JSON.parse(facts) as PackageFacts;
}
