import { z } from 'zod';
import { orderedChannels, readChannel } from '../../builds/plan/index.ts';
import type { PackageSearch } from '../../conda/index.ts';
import { type ProjectResult, type ProjectSearch, projectIn } from '../../pypi/index.ts';
import { clientSignal } from '../request-state.ts';
import { ok } from '../route/declaration.ts';
import { apiRoute } from './api-route.ts';

export interface PackageRoutesDeps {
  readonly packageSearch: PackageSearch;
  readonly projectSearch: ProjectSearch;
}

const tag = 'Packages';
const name = z.string().trim().min(2, 'has fewer than 2 characters').max(200);
const channels = z
  .string()
  .max(4096)
  .optional()
  .describe('Channels in order of priority, separated by commas. Default: those of requests');
const failures = {
  problems: z.array(z.string()).describe('Why channels could not be searched'),
  late: z
    .array(z.string())
    .describe('Channels whose list is still being fetched: the same search finds more later'),
};
const named = {
  channels: z.array(z.string()).describe('Channels that have it'),
  platforms: z.array(z.string()).describe('Subdirectories that have it, such as `linux-64`'),
};

/** How answers name the index of requests that name none, beside channels. */
const indexName = 'PyPI';
const hasWheel = z
  .boolean()
  .optional()
  .describe(
    'Only of Python packages. `false`: there is no wheel for Linux, so a builder makes one',
  );

/** Routes that search the packages of channels, and find those of Python by their names. */
export const packageRoutes = [
  apiRoute({
    id: 'searchPackages',
    method: 'get',
    path: '/v1alpha1/packages',
    tag,
    summary: 'Packages whose names contain a text, the best matches first',
    access: 'requests',
    query: z.object({ search: name.describe('At least two characters'), channels }),
    responses: ok(
      z.object({
        packages: z.array(
          z.object({
            name: z.string(),
            summary: z.string().optional(),
            newest: z.string().optional().describe('Newest version, where the channel says it'),
            ...named,
          }),
        ),
        isDescribing: z
          .boolean()
          .describe('`true`: a channel still sends summaries, which the same search has later'),
        total: z.number().int().describe('Number of all matches, counted up to 1,000'),
        meant: z
          .string()
          .optional()
          .describe('The most similar name, where none contains the text'),
        python: z
          .object({ entry: z.string(), newest: z.string(), hasWheel })
          .optional()
          .describe(
            'The Python package with exactly this name, as an entry such as `pip:scanpy`. An index of Python packages cannot be searched by a part of a name',
          ),
        ...failures,
      }),
      'What was found',
    ),
    limit: 'requests',
    async run({ ctx, query }, { packageSearch, projectSearch }: PackageRoutesDeps) {
      const { search: text } = query;
      const gone = clientSignal(ctx.res);
      const [{ packages, total, meant, isDescribing, failures }, python] = await Promise.all([
        packageSearch.search(text, channelsOf(query.channels), gone),
        projectSearch.find(projectIn(text) ?? text, gone),
      ]);
      const [newest] = python.project?.versions ?? [];
      return {
        packages: packages.map(({ name, about, channels, subdirs }) => ({
          name,
          ...(about?.summary ? { summary: about.summary } : {}),
          ...(about?.version ? { newest: about.version } : {}),
          channels: [...channels],
          platforms: [...subdirs],
        })),
        isDescribing,
        total,
        ...(meant === undefined ? {} : { meant }),
        ...(python.project && newest
          ? {
              python: {
                entry: `pip:${python.project.name}`,
                newest: newest.version,
                hasWheel: newest.hasWheel,
              },
            }
          : {}),
        ...withIndex(failures, python),
      };
    },
  }),
  apiRoute({
    id: 'listPackageVersions',
    method: 'get',
    path: '/v1alpha1/packages/{name}',
    tag,
    summary: 'Versions of a package, the newest first',
    access: 'requests',
    params: { name: name.describe('Name of the package, or `pip:NAME` for a Python package') },
    query: z.object({ channels }),
    responses: ok(
      z.object({
        versions: z.array(
          z.object({
            version: z.string(),
            channel: z.string().describe('`PyPI` for a Python package, which names no platforms'),
            platforms: named.platforms,
            hasWheel,
          }),
        ),
        hasMore: z.boolean().describe('`true`: there are older ones'),
        summary: z.string().optional(),
        ...failures,
      }),
      'The versions; none for a package that no channel has',
    ),
    limit: 'requests',
    async run({ ctx, params, query }, { packageSearch, projectSearch }: PackageRoutesDeps) {
      const gone = clientSignal(ctx.res);
      const project = projectIn(params.name);
      if (project !== undefined) {
        const found = await projectSearch.find(project, gone);
        const { versions = [], hasMore = false } = found.project ?? {};
        return {
          versions: versions.map(one => ({ ...one, channel: indexName, platforms: [] })),
          hasMore,
          ...withIndex({ problems: [], late: [] }, found),
        };
      }
      const { versions, hasMore, about, failures } = await packageSearch.versions(
        params.name,
        channelsOf(query.channels),
        gone,
      );
      return {
        versions: versions.map(({ version, channel, subdirs }) => ({
          version,
          channel,
          platforms: [...subdirs],
        })),
        hasMore,
        ...(about?.summary ? { summary: about.summary } : {}),
        problems: [...failures.problems],
        late: [...failures.late],
      };
    },
  }),
];

/** Adds the index of Python packages to the channels that could not be searched, or not yet. */
function withIndex(
  { problems, late }: { readonly problems: readonly string[]; readonly late: readonly string[] },
  { problem, isLate }: ProjectResult,
) {
  return {
    problems: [...problems, ...(problem === undefined ? [] : [problem])],
    late: [...late, ...(isLate ? [indexName] : [])],
  };
}

/** Returns the channels to search. Throws a `Fault` (400) for one that is not a channel. */
function channelsOf(written: string | undefined): readonly string[] {
  const channels = (written ?? '').split(',').filter(channel => channel.trim() !== '');
  return orderedChannels(channels.map(channel => readChannel('channels', channel.trim())));
}
