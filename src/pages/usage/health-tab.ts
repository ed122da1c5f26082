import { Fault } from '../../foundation/fault.ts';
import type { RemoteKind, RemoteState } from '../../foundation/telemetry/index.ts';
import { html } from '../frame/html.ts';
import { visibleText } from '../frame/shown-text.ts';
import type { Cell, Column } from './tables/figure-table.ts';
import type { UsagePageDeps } from './usage-data.ts';
import type { Section, UsageTab } from './usage-tab.ts';

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
      check(readiness.forReading()),
      check(readiness.forAll()),
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
function check(proof: Promise<void>): Promise<string | undefined> {
  return proof.then(
    () => undefined,
    (error: unknown) => (error instanceof Fault ? error.message : 'The log has the reason'),
  );
}
