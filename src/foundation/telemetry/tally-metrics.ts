import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Tally, TallyKind, TallyLabels } from './tally.ts';

// From an image that is only copied to a compilation of hours.
const secondsBuckets = [1, 5, 15, 60, 180, 600, 1800, 3600, 7200];

/** Returns a tally that also counts in the metrics of the process. Names of callers stay out of the metrics. */
export function withMetrics(tally: Tally, registry: Registry): Tally {
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, ...labelNames: L[]) => {
    const one = new Counter({ name, help, labelNames, registers });
    return (labels: Readonly<Record<L, string>>, count: number) => one.inc(labels, count);
  };
  const seconds = new Histogram({
    name: 'sluice_build_seconds',
    help: 'Time that builds waited in the queue and ran, by kind of recipe',
    labelNames: ['recipe', 'phase'] as const,
    buckets: secondsBuckets,
    registers,
  });
  const notes: { [K in TallyKind]?: (labels: TallyLabels[K], count: number) => void } = {
    'build requests': counter(
      'sluice_build_requests_total',
      'Requests for builds, by what answered them',
      'answer',
    ),
    'build results': counter(
      'sluice_build_results_total',
      'Builds that have ended, by kind of recipe and result',
      'recipe',
      'result',
    ),
    'build steps': counter(
      'sluice_build_steps_total',
      'Steps of builds on builders, by how they ended',
      'state',
    ),
    'package layers': counter(
      'sluice_package_layers_total',
      'Layers of Conda packages that builds needed: kept ones and made ones',
      'source',
    ),
    'cached blobs': counter(
      'sluice_cached_blobs_total',
      'Blobs of registries in cache mode that were pulled, by where they came from',
      'source',
    ),
    limits: counter(
      'sluice_limits_reached_total',
      'Requests that a limit refused (429, 503, 507), by limit',
      'limit',
    ),
  };
  return {
    add(kind, labels, count = 1) {
      tally.add(kind, labels, count);
      notes[kind]?.(labels, count);
    },
    observe(kind, labels, ms) {
      tally.observe(kind, labels, ms);
      seconds.observe({ ...labels }, ms / 1000);
    },
  };
}

/** Adds a metric of the builds that run and wait now. */
export function addLoadMetric(
  registry: Registry,
  load: () => { readonly running: number; readonly waiting: number },
): void {
  new Gauge({
    name: 'sluice_builds',
    help: 'Builds that run and wait now',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const { running, waiting } = load();
      this.set({ state: 'running' }, running);
      this.set({ state: 'waiting' }, waiting);
    },
  });
}
