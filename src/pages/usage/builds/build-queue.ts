import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { dayMs, dayOf } from '../../../foundation/telemetry/utc-day.ts';
import type { QueueHour, QueueStore } from '../../../storage/rows/figures/queue-rows.ts';
import { stackedChart } from '../charts/stacked-chart.ts';
import { type DayRange, daysOf } from '../usage-data.ts';
import type { Section } from '../usage-tab.ts';

const hourMs = 3_600_000;
/** A longer range shows days instead of hours. */
const mostDaysByHour = 7;
/** Other work runs after the hours of a month are read. */
const daysAtOnce = 30;

interface Span {
  readonly name: string;
  readonly hours: readonly QueueHour[];
}

/** Returns the queue over time: hours of a week, or days. */
export async function queueSection(
  range: DayRange,
  queue: Pick<QueueStore, 'between'>,
): Promise<Section> {
  const from = Date.parse(range.from);
  const days = daysOf(range);
  const hours: QueueHour[] = [];
  const end = Date.parse(range.to) + dayMs;
  for (let at = from; at < end; at += daysAtOnce * dayMs) {
    hours.push(...(await queue.between(at, Math.min(end, at + daysAtOnce * dayMs))));
    await pauseTurn();
  }
  const isByHour = days.length <= mostDaysByHour;
  const spans: Span[] = isByHour
    ? spansOf(hours, from, days.length * 24, hourMs, at => `${dayOf(at)} ${clock(at)}`)
    : spansOf(hours, from, days.length, dayMs, dayOf);
  const most = (key: 'mostRunning' | 'mostWaiting') =>
    spans.map(span => Math.max(0, ...span.hours.map(hour => hour[key])));
  const [running, waiting] = [most('mostRunning'), most('mostWaiting')];
  const unit = isByHour ? 'hour' : 'day';
  return {
    title: 'Queue',
    chart: stackedChart({
      title: `Most builds at once, by ${unit}`,
      places: spans.map(({ name }) => name),
      series: [
        { name: 'Running', values: running },
        { name: 'Waiting', values: waiting },
      ],
    }),
    table: {
      name: 'queue',
      title: `Queue by ${unit}`,
      columns: [
        { name: isByHour ? 'Hour (UTC)' : 'Day', kind: 'text' },
        { name: 'Most running', kind: 'count' },
        { name: 'Most waiting', kind: 'count' },
        { name: 'Share of the time with a queue', kind: 'share' },
      ],
      rows: spans.flatMap(({ name, hours: own }, at) =>
        own.length === 0 ? [] : [[name, running[at], waiting[at], queuedShare(own)]],
      ),
    },
    isFolded: true,
  };
}

function queuedShare(hours: readonly QueueHour[]): number {
  const sum = (key: 'samples' | 'queued') => hours.reduce((all, hour) => all + hour[key], 0);
  return sum('queued') / Math.max(1, sum('samples'));
}

function spansOf(
  hours: readonly QueueHour[],
  from: number,
  count: number,
  ms: number,
  nameOf: (at: number) => string,
): Span[] {
  const groups = new Map<number, QueueHour[]>();
  for (const hour of hours) {
    const at = Math.floor((hour.at - from) / ms);
    groups.set(at, [...(groups.get(at) ?? []), hour]);
  }
  return Array.from({ length: count }, (_, at) => ({
    name: nameOf(from + at * ms),
    hours: groups.get(at) ?? [],
  }));
}

function clock(at: number): string {
  return new Date(at).toISOString().slice(11, 16);
}
