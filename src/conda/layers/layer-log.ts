import { sizeText } from '../../foundation/text.ts';
import type { PackageLayerRow } from '../../storage/rows/index.ts';
import type { PackageProgress } from './making/archive-work.ts';
import type { PackageLayer } from './making/package-maker.ts';
import type { LayerOptions, PartProgress } from './package-layers.ts';

/** Reports the work for an environment: each download and layer, and a summary. */
export interface LayerLog {
  /** Watches the work for the layer with a key. */
  begin(key: string): void;
  /** @param name of the package */
  made(layer: Pick<PackageLayer, 'key' | 'progress'>, name: string): void;
  /** Writes a sentence about the packages. */
  say(sentence: string): void;
  end(layers: readonly PackageLayerRow[]): void;
  /** Ends the reports. */
  close(): void;
}

const reportMs = 1000;

/** @param total number of packages */
export function createLayerLog(
  total: number,
  progressOf: (key: string) => PackageProgress | undefined,
  { log, report = () => {} }: Pick<LayerOptions, 'log' | 'report'>,
): LayerLog {
  const began = performance.now();
  const open = new Set<string>();
  const here = new Set<string>();
  /** Packages whose layers were reported while they were made. */
  const shown = new Set<PackageProgress>();
  let ended: PartProgress[] = [];
  let fetched = 0;
  let fetchedBytes = 0;

  const parts = (progress: PackageProgress): PartProgress[] => {
    const { name, fetchBegan, makeBegan, fetched: bytes, archiveBytes: totalBytes } = progress;
    if (fetchBegan === undefined) return [];
    if (makeBegan === undefined) {
      const tookMs = Date.now() - fetchBegan;
      return [{ kind: 'download', name, bytes, totalBytes, tookMs, isDone: false }];
    }
    const before = shown.has(progress) ? [] : [downloadPart(progress)];
    shown.add(progress);
    return [...before, layerPart(progress, makeBegan, undefined)];
  };
  const reportNow = () => {
    const running = [...open].map(progressOf).filter(one => one !== undefined);
    report({
      done: here.size,
      total,
      fetched: running.reduce((sum, one) => sum + one.fetched, fetchedBytes),
      fetchedTotal: running.reduce((sum, one) => sum + one.archiveBytes, fetchedBytes),
      parts: [...ended, ...running.flatMap(parts)],
    });
    ended = [];
  };
  const timer = setInterval(reportNow, reportMs).unref();

  return {
    begin(key) {
      open.add(key);
    },

    made({ key, progress }, name) {
      open.delete(key);
      here.add(name);
      if (progress === undefined) return;
      fetched += 1;
      fetchedBytes += progress.archiveBytes;
      const { makeBegan = 0, madeAt } = progress;
      const isShown = shown.delete(progress);
      ended.push(isShown ? layerPart(progress, makeBegan, madeAt) : downloadPart(progress));
    },

    say: log,

    end(layers) {
      reportNow();
      const bytes = layers.reduce((sum, { size }) => sum + size, 0);
      const share =
        fetched === 0 ? 'all of them were here' : `${fetched} fetched, ${sizeText(fetchedBytes)}`;
      log(
        `${total} packages, ${share}; ${layers.length} layers, ${sizeText(bytes)}, in ${seconds(performance.now() - began)}`,
      );
    },

    close() {
      clearInterval(timer);
    },
  };
}

/** Returns a download that has ended. */
function downloadPart(progress: PackageProgress): PartProgress {
  const { name, fetchBegan = 0, makeBegan = 0, archiveBytes: bytes } = progress;
  const tookMs = makeBegan - fetchBegan;
  return { kind: 'download', name, bytes, totalBytes: bytes, tookMs, isDone: true };
}

/** @param madeAt end of the work; undefined while it goes on */
function layerPart(
  { name, written: [bytes = 0, totalBytes = 0] }: PackageProgress,
  began: number,
  madeAt: number | undefined,
): PartProgress {
  return {
    kind: 'layer',
    name,
    totalBytes,
    // The headers of the files are written also, and not counted.
    bytes: madeAt === undefined ? Math.min(bytes, totalBytes || bytes) : totalBytes,
    tookMs: (madeAt ?? Date.now()) - began,
    isDone: madeAt !== undefined,
  };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
