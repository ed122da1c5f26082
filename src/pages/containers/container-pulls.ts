import { containerSubject } from '../../pull/index.ts';
import type { ContainerToken } from '../../request/tokens/index.ts';
import type { PullStore } from '../../storage/rows/index.ts';
import { countText, type Html, html, timeElement } from '../frame/html.ts';
import { dayChart } from '../usage/charts.ts';
import { type DayCount, daysOf, rangeOf } from '../usage/usage-data.ts';

/** The pulls of a container in the last 30 days. */
export interface ContainerPulls {
  readonly days: readonly DayCount[];
  readonly count: number;
  /** ms since the epoch; undefined when nobody has pulled it. */
  readonly lastAt: number | undefined;
}

export async function readContainerPulls(
  token: ContainerToken,
  pulls: Pick<PullStore, 'byDay' | 'recent'>,
): Promise<ContainerPulls> {
  const range = rangeOf(undefined, undefined);
  const subject = containerSubject(token);
  const counts = new Map(
    (await pulls.byDay(subject, range.from)).map(({ day, count }) => [day, count]),
  );
  const days = daysOf(range).map(day => ({ day, count: counts.get(day) ?? 0 }));
  return { days, ...(await pulls.recent(subject, range.from)) };
}

/** Returns the pulls as a chart, with the days that have pulls as a table. */
export function pullsPart({ days, count, lastAt }: ContainerPulls): Html {
  if (lastAt === undefined) {
    return html`<h2>Pulls</h2><p class="minor">Nobody has pulled it yet.</p>`;
  }
  return html`<h2>Pulls</h2>
<p><strong>${countText(count)}</strong> in the last ${days.length} days; the last pull was at ${timeElement(lastAt)}</p>
${
  count > 0 &&
  html`${dayChart('Pulls', days)}
<details><summary>Pulls by day as a table</summary>
<table class="figures"><thead><tr><th scope="col">Day</th><th scope="col" class="number">Pulls</th></tr></thead>
<tbody>${days
    .filter(one => one.count > 0)
    .map(
      one =>
        html`<tr><td class="day">${one.day}</td><td class="number">${countText(one.count)}</td></tr>`,
    )}</tbody></table></details>`
}`;
}
