import type { BuildLogs, Builds, Requester } from '../../builds/index.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { BuildListStore, ListedBuild } from '../../storage/rows/index.ts';

export const buildStates = ['queued', 'running', 'succeeded', 'failed'] as const;
export type BuildState = (typeof buildStates)[number];
export const listedKinds = ['dockerfile', 'conda', 'definition', 'image'] as const;

/** What a list of builds is limited to. */
export interface BuildFilter {
  readonly state?: BuildState | undefined;
  readonly kind?: (typeof listedKinds)[number] | undefined;
  /** Text in the name of the image. */
  readonly target?: string | undefined;
  readonly before?: number | undefined;
}

export interface ShownBuild extends Omit<ListedBuild, 'row' | 'succeeded' | 'owner' | 'grant'> {
  readonly state: BuildState;
  /** Undefined where the steps are not known. */
  readonly cache: { readonly cached: number; readonly all: number } | undefined;
}

export interface BuildList {
  readonly builds: readonly ShownBuild[];
  /** Where the next page begins; undefined at the end of the list. */
  readonly next: number | undefined;
  /** True if the list ends because it has looked at enough builds, not because it is full. */
  readonly isPartial: boolean;
}

export interface BuildListSources {
  readonly buildList: BuildListStore;
  readonly logs: BuildLogs;
  readonly builds: Pick<Builds, 'isOf'>;
}

const pageLength = 25;
const batch = 100;
// A page looks at this many builds at most, whatever the filters find.
const mostSeen = 500;

/**
 * Returns a page of a list of builds, the newest first.
 *
 * @param caller whose builds; undefined for those of everybody
 */
export async function listBuilds(
  caller: Requester | undefined,
  filter: BuildFilter,
  { buildList, logs, builds: { isOf } }: BuildListSources,
): Promise<BuildList> {
  const found: ListedBuild[] = [];
  let before = filter.before ?? Number.MAX_SAFE_INTEGER;
  let hasMore = true;
  for (let seen = 0; hasMore && seen < mostSeen && found.length <= pageLength; seen += batch) {
    await pauseTurn();
    const query = { owner: caller?.owner, succeeded: resultOf(filter.state), before, limit: batch };
    const rows = await buildList.list(query);
    hasMore = rows.length === batch;
    before = rows.at(-1)?.row ?? before;
    const seen = rows.filter(row => caller === undefined || isOf(row, caller));
    found.push(...seen.filter(row => matches(row, filter)));
  }
  const page = found.slice(0, pageLength);
  const isFull = found.length > pageLength;
  const builds: ShownBuild[] = [];
  for (const { row: _, owner: __, grant: ___, succeeded, ...build } of page) {
    const state = stateOf(build, succeeded);
    const record = await logs.steps(build.id);
    const steps = record?.steps ?? [];
    const cached = steps.filter(step => step.state === 'cached').length;
    const cache = steps.length > 0 ? { cached, all: steps.length } : undefined;
    // The plan of a build from an existing image has no platforms.
    const made = record?.platforms.map(({ platform }) => platform) ?? [];
    const platforms = build.platforms.length > 0 ? build.platforms : made;
    builds.push({ ...build, state, cache, platforms });
  }
  return {
    builds,
    next: isFull ? page.at(-1)?.row : hasMore ? before : undefined,
    isPartial: !isFull && hasMore,
  };
}

function resultOf(state: BuildState | undefined): boolean | null | undefined {
  if (state === undefined) return undefined;
  return state === 'succeeded' ? true : state === 'failed' ? false : null;
}

function stateOf(
  { startedAt, finishedAt }: Pick<ListedBuild, 'startedAt' | 'finishedAt'>,
  succeeded: boolean | null,
): BuildState {
  if (finishedAt !== null) return succeeded ? 'succeeded' : 'failed';
  return startedAt === null ? 'queued' : 'running';
}

function matches(row: ListedBuild, { state, kind, target = '' }: BuildFilter): boolean {
  if (state !== undefined && stateOf(row, row.succeeded) !== state) return false;
  if (kind !== undefined && row.kind !== kind) return false;
  return row.target.toLowerCase().includes(target.toLowerCase());
}
