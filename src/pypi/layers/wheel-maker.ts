import {
  createArchiveWork,
  type FetchArchive,
  type KeptLayers,
  type PackageProgress,
  type UnpackLimits,
} from '../../conda/index.ts';
import type { Tally } from '../../foundation/telemetry/counted.ts';
import type { PackageLayerRow } from '../../storage/rows/index.ts';
import { projectName } from '../wheel-file.ts';
import {
  type WheelFacts,
  type WheelOrders,
  type WheelSubject,
  wheelLayerKey,
} from './wheel-layer.ts';

/** The layer of one wheel. */
export interface WheelLayer extends PackageLayerRow {
  readonly key: string;
  /** Marks a wheel: a Conda package may have the same name. */
  readonly name: string;
  /** Its name and version, as people write them. */
  readonly title: string;
  readonly subject: WheelSubject;
  /** The work that made it now; undefined for a layer that was here. */
  readonly progress?: PackageProgress | undefined;
}

/** Makes layers of wheels, each once. */
export interface WheelMaker {
  /** Returns the layer of a wheel, which is made when it is not here. One caller's work serves all that wait for it. */
  make(subject: WheelSubject, signal: AbortSignal): Promise<WheelLayer>;
  /** Returns true for a wheel whose layer is here. */
  has(subject: WheelSubject): Promise<boolean>;
  /** Returns how far the work for a key is; undefined where nothing is done for it. */
  progressOf(key: string): PackageProgress | undefined;
}

export interface WheelMakerDeps {
  readonly kept: KeptLayers<WheelOrders>;
  /** Fetches a wheel, and verifies its digest. */
  readonly fetchWheel: FetchArchive;
  readonly limits: UnpackLimits;
  readonly tally: Tally;
}

export function createWheelMaker({ kept, fetchWheel, limits, tally }: WheelMakerDeps): WheelMaker {
  const work = createArchiveWork(fetchWheel);

  return {
    async make(subject, signal) {
      const key = wheelLayerKey(subject);
      const there = await kept.use(key);
      tally.add('package layers', { source: there ? 'kept' : 'made' });
      const { name, version, fileName, url, size } = subject.package;
      const stated = [name, version, fileName, url, size];
      const layer =
        there ??
        (await work.make(key, stated, subject.package, signal, ({ path: archive }, stop, written) =>
          kept.make(key, { kind: 'wheel', subject, archive, limits }, stop, written),
        ));
      return { ...layer, key, subject, name: addedName(name), title: `${name} ${version}` };
    },
    has: subject => kept.has(wheelLayerKey(subject)),
    progressOf: work.progressOf,
  };
}

/** Returns the name of a wheel's project among all packages of an environment: a Conda package may have the same. */
export function addedName(name: string): string {
  return `pypi:${projectName(name)}`;
}

/** Returns what is known about a wheel whose layer is here. */
export function wheelFactsOf({ facts }: Pick<PackageLayerRow, 'facts'>): WheelFacts {
  return JSON.parse(facts ?? '{}') as WheelFacts;
}
