import { z } from 'zod';
import type { BuildLogs, Builds, Requester } from '../../../builds/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { requireScope } from '../../../platform/built-in/index.ts';
import type { BuildListStore, ListedBuild } from '../../../storage/rows/index.ts';
import { isSiteAdministrator, type RequireAdministrator } from '../../callers/identify.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import { isoTime } from '../container/container-response.ts';
import { requesterOf } from './build-routes.ts';

export const buildStates = ['queued', 'running', 'succeeded', 'failed'] as const;
export type BuildState = (typeof buildStates)[number];
export const listedKinds = ['dockerfile', 'conda', 'cran', 'definition', 'image'] as const;

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
  /** Why it failed; undefined for others. */
  readonly reason: string | undefined;
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
  readonly builds: Pick<Builds, 'isOf' | 'get'>;
}

const pageLength = 25;
const rowsAtOnce = 100;
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
  { buildList, logs, builds: { isOf, get } }: BuildListSources,
): Promise<BuildList> {
  const found: ListedBuild[] = [];
  let before = filter.before ?? Number.MAX_SAFE_INTEGER;
  let hasMore = true;
  for (let seen = 0; hasMore && seen < mostSeen && found.length <= pageLength; seen += rowsAtOnce) {
    await pauseTurn();
    const query = {
      owner: caller?.owner,
      succeeded: resultOf(filter.state),
      before,
      limit: rowsAtOnce,
    };
    const rows = await buildList.list(query);
    hasMore = rows.length === rowsAtOnce;
    before = rows.at(-1)?.row ?? before;
    const seen = rows.filter(row => caller === undefined || isOf(row, caller));
    found.push(...seen.filter(row => matchesFilter(row, filter)));
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
    const reason = state === 'failed' ? await reasonOf(build.id, get) : undefined;
    builds.push({ ...build, state, reason, cache, platforms });
  }
  return {
    builds,
    next: isFull ? page.at(-1)?.row : hasMore ? before : undefined,
    isPartial: !isFull && hasMore,
  };
}

/** Returns undefined for a build that was removed meanwhile: the others of the list are shown. */
async function reasonOf(id: string, get: Builds['get']): Promise<string | undefined> {
  try {
    return (await get(id)).reason ?? undefined;
  } catch (error) {
    if (!(error instanceof Fault) || error.kind !== 'build-unknown') throw error;
    return undefined;
  }
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

function matchesFilter(row: ListedBuild, { state, kind, target = '' }: BuildFilter): boolean {
  if (state !== undefined && stateOf(row, row.succeeded) !== state) return false;
  if (kind !== undefined && row.kind !== kind) return false;
  return row.target.toLowerCase().includes(target.toLowerCase());
}

export interface BuildListRouteDeps extends BuildListSources {
  readonly requireAdministrator: RequireAdministrator;
}

const listedBuildSchema = z.object({
  id: z.string(),
  state: z.enum(buildStates),
  reason: z.string().optional().describe('Why the build failed'),
  targetImage: z.string(),
  madeFrom: z.string().describe('`dockerfile`, `conda`, `cran`, `definition` or `image`'),
  format: z.enum(['docker', 'sif']),
  platforms: z.array(z.string()),
  creationTime: z.iso.datetime(),
  duration: z.number().optional().describe('Seconds since it began; absent while it waits'),
});

export const buildListApiRoutes = [
  apiRoute({
    id: 'listBuilds',
    method: 'get',
    path: '/v1alpha1/builds',
    tag: 'Builds',
    summary: 'Builds, the newest first: those of the caller, for administrators all',
    access: 'caller',
    query: z.object({
      state: z.enum(buildStates).optional(),
      target: z.string().max(200).optional().describe('Text in the name of the image'),
      last: z
        .string()
        .regex(/^\d{1,15}$/, "is not the 'next' of a response")
        .optional()
        .describe('`next` of the previous response'),
    }),
    responses: ok(
      z.object({
        builds: z.array(listedBuildSchema),
        next: z
          .string()
          .optional()
          .describe(
            '`last` of the next call. A response with few builds, or none, can have it, too',
          ),
      }),
      'A part of the list',
    ),
    async run({ ctx, caller, query: { last, ...filter } }, deps: BuildListRouteDeps) {
      const isForAll = await isSiteAdministrator(ctx.req, deps.requireAdministrator);
      // The id of a build gives access to it, and callers without a login share their network.
      if (!isForAll && caller.user === undefined) throw needsLogin();
      if (!isForAll) requireScope(caller.rights, 'build');
      const requester = isForAll ? undefined : requesterOf(caller);
      const before = last === undefined ? undefined : Number(last);
      const { builds, next } = await listBuilds(requester, { ...filter, before }, deps);
      return {
        builds: builds.map(entryOf),
        ...(next === undefined ? {} : { next: String(next) }),
      };
    },
  }),
];

function entryOf(build: ShownBuild) {
  const { id, state, reason, target, kind, isSif, platforms, createdAt, startedAt, finishedAt } =
    build;
  return {
    id,
    state,
    ...(reason ? { reason } : {}),
    targetImage: target,
    madeFrom: kind,
    format: isSif ? ('sif' as const) : ('docker' as const),
    platforms: [...platforms],
    creationTime: isoTime(createdAt),
    ...(startedAt === null
      ? {}
      : { duration: Math.max(0, (finishedAt ?? Date.now()) - startedAt) / 1000 }),
  };
}

function needsLogin(): Fault {
  return new Fault(
    'unauthorized',
    "The list of builds requires a login: send an access token, or an administrator's account (HTTP basic)",
    {
      phase: 'credentials',
      headers: { 'www-authenticate': 'Basic realm="Sluice", charset="UTF-8"' },
    },
  );
}
