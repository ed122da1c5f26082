import {
  type FetchArchive,
  type KeptLayers,
  PackageProgress,
  type UnpackLimits,
} from '../../conda/index.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
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

// Wheels of one host on this machine or on their way: more than are installed at once, so that the threads have work.
const wheelsAtOnce = 8;

export function createWheelMaker({ kept, fetchWheel, limits, tally }: WheelMakerDeps): WheelMaker {
  const making = new SingleFlight<PackageLayerRow & { progress: PackageProgress }>();
  const running = new Map<string, PackageProgress>();
  const turns = new Semaphore({ perKey: wheelsAtOnce });

  const make = async (key: string, subject: WheelSubject, signal: AbortSignal) => {
    const { package: it } = subject;
    const progress = new PackageProgress(it);
    running.set(key, progress);
    try {
      using _turn = await turns.take({ key: new URL(it.url).host, signal });
      progress.fetchBegan = Date.now();
      await using archive = await fetchWheel(it, signal, (bytes, size) =>
        progress.received(bytes, size),
      );
      progress.received(archive.size, archive.size);
      progress.makeBegan = Date.now();
      const order = { kind: 'wheel', subject, archive: archive.path, limits } as const;
      const layer = await kept.make(key, order, signal, progress.written);
      progress.madeAt = Date.now();
      return { ...layer, progress };
    } finally {
      if (running.get(key) === progress) running.delete(key);
    }
  };

  return {
    async make(subject, signal) {
      const key = wheelLayerKey(subject);
      const there = await kept.use(key);
      tally.add('package layers', { source: there ? 'kept' : 'made' });
      const layer =
        there ??
        (await making.run(stop => make(key, subject, stop), {
          key: workKey(key, subject),
          signal,
        }));
      const { name, version } = subject.package;
      return { ...layer, key, subject, name: addedName(name), title: `${name} ${version}` };
    },
    has: subject => kept.has(wheelLayerKey(subject)),
    progressOf: key => running.get(key),
  };
}

/**
 * Returns the key of work that callers share: with all that makes it fail. An index can name the wheel of another one, and lie
 * about it: its callers must not fail the work of others.
 */
function workKey(key: string, { package: { name, version, fileName, url, size } }: WheelSubject) {
  return JSON.stringify([key, name, version, fileName, url, size]);
}

/** Returns the name of a wheel's project among all packages of an environment: a Conda package may have the same. */
export function addedName(name: string): string {
  return `pypi:${projectName(name)}`;
}

/** Returns what is known about a wheel whose layer is here. */
export function wheelFactsOf({ facts }: Pick<PackageLayerRow, 'facts'>): WheelFacts {
  return JSON.parse(facts ?? '{}') as WheelFacts;
}
