import { z } from 'zod';
import { orderedChannels, readChannel } from '../../builds/plan/index.ts';
import type { PackageSearch } from '../../conda/index.ts';
import { clientSignal } from '../request-state.ts';
import { ok } from '../route/declaration.ts';
import { apiRoute } from './api-route.ts';

export interface PackageRoutesDeps {
  readonly packageSearch: PackageSearch;
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

/** Routes that search the packages of channels. */
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
        ...failures,
      }),
      'What was found',
    ),
    limit: 'requests',
    async run({ ctx, query }, { packageSearch }: PackageRoutesDeps) {
      const { packages, total, isDescribing, failures } = await packageSearch.search(
        query.search,
        channelsOf(query.channels),
        clientSignal(ctx.res),
      );
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
        problems: [...failures.problems],
        late: [...failures.late],
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
    params: { name: name.describe('Name of the package') },
    query: z.object({ channels }),
    responses: ok(
      z.object({
        versions: z.array(
          z.object({
            version: z.string(),
            channel: z.string(),
            platforms: named.platforms,
          }),
        ),
        hasMore: z.boolean().describe('`true`: there are older ones'),
        summary: z.string().optional(),
        ...failures,
      }),
      'The versions; none for a package that no channel has',
    ),
    limit: 'requests',
    async run({ ctx, params, query }, { packageSearch }: PackageRoutesDeps) {
      const { versions, hasMore, about, failures } = await packageSearch.versions(
        params.name,
        channelsOf(query.channels),
        clientSignal(ctx.res),
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

/** Returns the channels to search. Throws a `Fault` (400) for one that is not a channel. */
function channelsOf(written: string | undefined): readonly string[] {
  const channels = (written ?? '').split(',').filter(channel => channel.trim() !== '');
  return orderedChannels(channels.map(channel => readChannel('channels', channel.trim())));
}
