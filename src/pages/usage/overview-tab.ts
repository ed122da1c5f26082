import { Fault } from '../../foundation/fault.ts';
import type { RemoteKind, RemoteState } from '../../foundation/telemetry/index.ts';
import { byteText, countText, type Html, html, shownText, visibleText } from '../frame/html.ts';
import { dayChart } from './charts.ts';
import {
  type DayRange,
  type MetricUsage,
  type ServerNow,
  type ShownMetric,
  serverNow,
  shownMetrics,
  type UsagePageDeps,
  usageOf,
} from './usage-data.ts';
import type { Cell, Column, Section, UsageTab } from './usage-tab.ts';

const metricTitles: Readonly<Record<ShownMetric, string>> = { pulls: 'Pulls', builds: 'Builds' };

/** The state of the server, and its use by organisation. */
export const overviewTab: UsageTab<UsagePageDeps> = {
  path: '/view/usage',
  title: 'Overview',
  hasDays: true,
  tables: [],
  async read(range, deps) {
    const now = serverPart(await serverNow(deps));
    const metrics = [];
    for (const metric of shownMetrics) metrics.push(await usageOf(metric, range, deps.usage));
    return { now, sections: [], more: html`${metrics.map(one => metricPart(one, range))}` };
  },
};

function serverPart(now: ServerNow): Html {
  const { running, waiting, maxRunning, maxWaiting, trouble } = now;
  const { diskBytes, freeBytes, reserveBytes, isLow } = now.disk;
  return html`<h2>Now</h2>
<dl class="facts">
<dt>Server</dt><dd>${trouble === undefined ? html`<span class="badge good">Ready</span>` : html`<span class="badge bad">Not ready</span> ${visibleText(trouble)}`}</dd>
<dt>Builds</dt><dd>${countText(running)} running (at most ${countText(maxRunning)}), ${countText(waiting)} waiting (at most ${countText(maxWaiting)} in all)</dd>
<dt>Disk</dt><dd>${byteText(freeBytes)} free of ${byteText(diskBytes)}${isLow && html` <span class="badge bad">Low</span>`}. Writes stop below ${byteText(reserveBytes)}.</dd>
</dl>`;
}

function metricPart({ metric, total, days, orgs, others }: MetricUsage, range: DayRange): Html {
  const title = metricTitles[metric];
  const query = `metric=${metric}&from=${range.from}&to=${range.to}`;
  const rows = [
    ...orgs.map(({ org, count }) => ({
      name:
        org === '' ? html`<span class="minor">without an organisation</span>` : shownText(org, 120),
      count,
    })),
    ...(others > 0 ? [{ name: html`<span class="minor">others</span>`, count: others }] : []),
  ];
  return html`<h2>${title}</h2>
<p><strong>${countText(total)}</strong> from ${range.from} to ${range.to}</p>
${dayChart(title, days)}
<details><summary>${title} by day as a table</summary>
${topTable(
  title,
  'Day',
  days.map(({ day, count }) => ({ name: html`${day}`, count })),
  total,
)}
</details>
<p><a href="/view/usage/days.csv?${query}">${title} by day (CSV)</a></p>
<h3>${title} by organisation</h3>
${
  rows.length === 0
    ? html`<p class="minor">None in this range.</p>`
    : html`${topTable(title, 'Organisation', rows, total)}
<p><a href="/view/usage/organisations.csv?${query}">${title} by organisation (CSV)</a></p>`
}`;
}

interface Row {
  readonly name: Html;
  readonly count: number;
}

function topTable(title: string, head: string, rows: readonly Row[], total: number): Html {
  const share = (count: number) => (total === 0 ? 0 : (count / total) * 100);
  return html`<div class="wide" tabindex="0" role="region" aria-label="${title} by ${head.toLowerCase()}"><table class="shares">
<thead><tr><th scope="col">${head}</th><th scope="col" class="number">Count</th><th scope="col">Share</th></tr></thead>
<tbody>${rows.map(({ name, count }) => html`<tr><td>${name}</td><td class="number">${countText(count)}</td><td><svg class="share" width="100%" height="12" aria-hidden="true"><rect class="bar" width="${share(count).toFixed(2)}%" height="12"/></svg> ${share(count).toFixed(1)} %</td></tr>`)}</tbody></table></div>`;
}

const hostColumns: readonly Column[] = [
  { name: 'State', kind: 'state' },
  { name: 'Requests (last hour)', kind: 'count' },
  { name: 'Failures (last hour)', kind: 'count' },
  { name: 'Median time (last hour)', kind: 'ms' },
  { name: 'Last success', kind: 'time' },
  { name: 'Last failure', kind: 'time' },
  { name: 'Last reason', kind: 'text' },
];
const shownHosts = 100;

/** How the server is, and the hosts that it talked to lately. */
export const healthTab: UsageTab<UsagePageDeps> = {
  path: '/view/usage/health',
  title: 'Health',
  hasDays: false,
  tables: ['checks', 'registries', 'builders', 'platforms'],
  async read(_, { readiness, remotes, builderStates }) {
    const [pulls, all] = await Promise.all([
      problemOf(readiness.forReading()),
      problemOf(readiness.forAll()),
    ]);
    const known = remotes.list();
    const of = (kind: RemoteKind) => known.filter(one => one.kind === kind).slice(0, shownHosts);
    const builders = new Map(builderStates().map(state => [state.address, state]));
    const used = of('builder');
    return {
      now: html`<p>${all === undefined ? html`<span class="badge good">Ready</span> All checks succeed.` : html`<span class="badge bad">Not ready</span> ${visibleText(all)}`}</p>`,
      sections: [
        {
          title: 'Checks of readiness',
          table: {
            name: 'checks',
            title: 'Checks of readiness',
            columns: [
              { name: 'Check', kind: 'text' },
              { name: 'State', kind: 'state' },
              { name: 'Why', kind: 'text' },
            ],
            rows: [
              ['Reading (pulls)', stateWord(pulls), pulls],
              ['Reading and writing (everything)', stateWord(all), all],
            ],
          },
        },
        hostsSection('registries', 'Registries', 'Registry', of('registry')),
        {
          ...hostsSection('builders', 'Builders', 'Builder', used),
          table: {
            name: 'builders',
            title: 'Builders',
            columns: [
              { name: 'Builder', kind: 'text' },
              { name: 'Version', kind: 'text' },
              { name: 'Platforms', kind: 'text' },
              { name: 'Running builds', kind: 'count' },
              ...hostColumns,
            ],
            rows: used.map(remote => {
              const { version, platforms, running } = builders.get(remote.name) ?? {};
              return [remote.name, version, platforms?.join(' '), running, ...cellsOf(remote)];
            }),
          },
        },
        hostsSection('platforms', 'Platforms', 'Platform', of('platform')),
      ],
    };
  },
};

function hostsSection(
  name: string,
  title: string,
  head: string,
  remotes: readonly RemoteState[],
): Section {
  return {
    title,
    empty: 'None was used since the start.',
    table: {
      name,
      title,
      columns: [{ name: head, kind: 'text' }, ...hostColumns],
      rows: remotes.map(remote => [remote.name, ...cellsOf(remote)]),
    },
  };
}

function cellsOf(remote: RemoteState): Cell[] {
  const { isFailing, succeededAt, failedAt, failure, requests, failures, medianMs } = remote;
  const state = isFailing ? 'Failing' : failures > 0 ? 'Working, failed lately' : 'Working';
  return [state, requests, failures, medianMs, succeededAt, failedAt, failure];
}

function stateWord(problem: string | undefined): string {
  return problem === undefined ? 'Succeeds' : 'Fails';
}

/** Returns why a check fails; undefined if it succeeds. */
function problemOf(proof: Promise<void>): Promise<string | undefined> {
  return proof.then(
    () => undefined,
    (error: unknown) => (error instanceof Fault ? error.message : 'The log has the reason'),
  );
}
