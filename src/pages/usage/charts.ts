import { scaleBand, scaleLinear } from 'd3-scale';
import { countText, type Html, html, shownText, visibleText } from '../frame/html.ts';
import type { DayCount } from './usage-data.ts';

/** Values that are stacked on each other. */
export interface Series {
  readonly name: string;
  /** One for each place of the chart. */
  readonly values: readonly number[];
}

export interface StackedChart {
  readonly title: string;
  /** What stands below each bar: days, or hours. */
  readonly places: readonly string[];
  /** At most six: the lowest first. */
  readonly series: readonly Series[];
  /** Default: a count. */
  readonly format?: (value: number) => string;
  /** At the axis, where a phone has room for six characters. Default: `format`. */
  readonly axisFormat?: (value: number) => string;
  /** The values of the axis, with no unit between them. Default: whole numbers. */
  readonly isWhole?: boolean;
}

const longestName = 100;
const height = 180;
const top = 12;
const bottom = 24;
// Percent of the width, which leaves room for the numbers of the axis.
const left = 12;

/** Returns a chart of stacked bars with its legend. Texts keep their size at every width: places are percentages. */
export function stackedChart({
  title,
  places,
  series,
  format = countText,
  axisFormat = format,
  isWhole = true,
}: StackedChart): Html {
  const sumAt = (place: number) =>
    series.reduce((sum, { values }) => sum + (values[place] ?? 0), 0);
  const most = Math.max(isWhole ? 1 : Number.MIN_VALUE, ...places.map((_, place) => sumAt(place)));
  const x = scaleBand(
    places.map((_, place) => place),
    [left, 100],
  ).padding(0.2);
  const y = scaleLinear([0, most], [height - bottom, top]).nice(3);
  const ticks = y.ticks(3).filter(tick => !isWhole || Number.isInteger(tick));
  const lines = ticks.map(
    tick => html`<line class="grid" x1="${left}%" x2="100%" y1="${y(tick)}" y2="${y(tick)}"/>
<text x="${left - 1}%" y="${y(tick)}" dy="0.35em" text-anchor="end">${axisFormat(tick)}</text>`,
  );
  const bars = places.map((name, place) => {
    let from = 0;
    return series.map(({ name: what, values }, at) => {
      const value = values[place] ?? 0;
      if (value === 0) return undefined;
      const [low, high] = [y(from), y(from + value)];
      from += value;
      return html`<rect class="series-${at + 1}" x="${(x(place) ?? 0).toFixed(3)}%" width="${x.bandwidth().toFixed(3)}%" y="${high.toFixed(1)}" height="${Math.max(0.5, low - high).toFixed(1)}"><title>${name}, ${visibleText(what, longestName)}: ${format(value)}</title></rect>`;
    });
  });
  return html`<svg class="chart" role="img" aria-label="${title}; the table below has the same" width="100%" height="${height}">
${lines}${bars}
<text x="${left}%" y="${height - 6}">${places[0]}</text>
${places.length > 1 && html`<text x="100%" y="${height - 6}" text-anchor="end">${places.at(-1)}</text>`}
</svg>
${series.length > 1 && html`<ul class="legend">${series.map(({ name }, at) => html`<li><svg width="12" height="12" aria-hidden="true"><rect class="series-${at + 1}" width="12" height="12"/></svg> ${shownText(name, longestName)}</li>`)}</ul>`}`;
}

const dayHeight = 160;

/** Returns the counts of days as bars. Texts keep their size at every width, because places are percentages. */
export function dayChart(title: string, days: readonly DayCount[]): Html {
  const most = Math.max(1, ...days.map(({ count }) => count));
  const x = scaleBand(
    days.map(({ day }) => day),
    [left, 100],
  ).padding(0.2);
  const y = scaleLinear([0, most], [dayHeight - bottom, top]).nice(3);
  const ticks = y.ticks(3).filter(Number.isInteger);
  const lines = ticks.map(
    tick => html`<line class="grid" x1="${left}%" x2="100%" y1="${y(tick)}" y2="${y(tick)}"/>
<text x="${left - 1}%" y="${y(tick)}" dy="0.35em" text-anchor="end">${countText(tick)}</text>`,
  );
  const bars = days.map(({ day, count }) => {
    const at = y(count);
    return html`<rect class="bar" x="${(x(day) ?? 0).toFixed(3)}%" width="${x.bandwidth().toFixed(3)}%" y="${at.toFixed(1)}" height="${(dayHeight - bottom - at).toFixed(1)}"><title>${day}: ${countText(count)}</title></rect>`;
  });
  const [first] = days;
  const last = days.at(-1);
  return html`<svg class="chart" role="img" aria-label="${title} by day; the table below has the same" width="100%" height="${dayHeight}">
${lines}${bars}
<text x="${left}%" y="${dayHeight - 6}">${first?.day}</text>
${days.length > 1 && html`<text x="100%" y="${dayHeight - 6}" text-anchor="end">${last?.day}</text>`}
</svg>`;
}
