import { scaleBand, scaleLinear } from 'd3-scale';
import { countText } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import type { DayCount } from '../usage-data.ts';

const height = 160;
const top = 12;
const bottom = 24;
// Percent of the width, which leaves room for the numbers of the axis.
const left = 12;

/** Returns the counts of days as bars. Texts keep their size at every width, because places are percentages. */
export function dayChart(title: string, days: readonly DayCount[]): Html {
  const most = Math.max(1, ...days.map(({ count }) => count));
  const x = scaleBand(
    days.map(({ day }) => day),
    [left, 100],
  ).padding(0.2);
  const y = scaleLinear([0, most], [height - bottom, top]).nice(3);
  const ticks = y.ticks(3).filter(Number.isInteger);
  const lines = ticks.map(
    tick => html`<line class="grid" x1="${left}%" x2="100%" y1="${y(tick)}" y2="${y(tick)}"/>
<text x="${left - 1}%" y="${y(tick)}" dy="0.35em" text-anchor="end">${countText(tick)}</text>`,
  );
  const bars = days.map(({ day, count }) => {
    const at = y(count);
    return html`<rect class="bar" x="${(x(day) ?? 0).toFixed(3)}%" width="${x.bandwidth().toFixed(3)}%" y="${at.toFixed(1)}" height="${(height - bottom - at).toFixed(1)}"><title>${day}: ${countText(count)}</title></rect>`;
  });
  const [first] = days;
  const last = days.at(-1);
  return html`<svg class="chart" role="img" aria-label="${title} by day; the table below has the same" width="100%" height="${height}">
${lines}${bars}
<text x="${left}%" y="${height - 6}">${first?.day}</text>
${days.length > 1 && html`<text x="100%" y="${height - 6}" text-anchor="end">${last?.day}</text>`}
</svg>`;
}
