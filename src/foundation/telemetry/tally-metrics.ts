import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Tally, TallyKind } from './tally.ts';
import { msOfBucket } from './time-buckets.ts';

// From an image that is only copied to a compilation of hours.
const secondsBuckets = [1, 5, 15, 60, 180, 600, 1800, 3600, 7200];

/** Returns a tally that also counts in the metrics of the process. Names of callers stay out of the metrics. */
export function withMetrics(tally: Tally, registry: Registry): Tally {
  const registers = [registry];
  const counter = (name: string, help: string, label: string) => {
    const one = new Counter({ name, help, labelNames: [label], registers });
    return (value: string, count: number) => one.inc({ [label]: value }, count);
  };
  const results = new Counter({
    name: 'sluice_build_results_total',
    help: 'Builds that have ended, by kind of recipe and result',
    labelNames: ['recipe', 'result'] as const,
    registers,
  });
  const seconds = new Histogram({
    name: 'sluice_build_seconds',
    help: 'Time that builds waited in the queue and ran, by kind of recipe',
    labelNames: ['recipe', 'phase'] as const,
    buckets: secondsBuckets,
    registers,
  });
  const notes: Partial<Record<TallyKind, (name: string, count: number) => void>> = {
    'build requests': counter(
      'sluice_build_requests_total',
      'Requests for builds, by what answered them',
      'answer',
    ),
    'build results'(name, count) {
      const [recipe = '', ...result] = name.split(' ');
      results.inc({ recipe, result: result.join(' ') }, count);
    },
    'build times'(name, count) {
      const [recipe = '', phase = '', bucket] = name.split(' ');
      for (let at = 0; at < count; at += 1) {
        seconds.observe({ recipe, phase }, msOfBucket(Number(bucket)) / 1000);
      }
    },
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
    add(kind, name, count = 1) {
      tally.add(kind, name, count);
      notes[kind]?.(name, count);
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
