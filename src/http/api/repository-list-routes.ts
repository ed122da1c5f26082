import { z } from 'zod';
import {
  listRepositories,
  listUntagged,
  recentDays,
  type ShownManifest,
  viewRepository,
} from '../../hosted/index.ts';
import { maxNameLength, repositoryPattern } from '../../oci/naming.ts';
import type { RecentPulls } from '../../storage/rows/index.ts';
import {
  type ListedRepositories,
  listRights,
  mayNotDelete,
  pullRights,
} from '../registry/login/registry-auth.ts';
import { ok } from '../route/declaration.ts';
import { apiRoute } from './api-route.ts';

export interface RepositoryRoutesDeps {
  readonly repositories: ListedRepositories;
}

const pulled = {
  recentPulls: z.number().int().describe(`Pulls in the last ${recentDays} days`),
  lastPulledAt: z.iso.datetime().optional().describe('The last pull; absent when none is recorded'),
};
const image = {
  digest: z.string(),
  platforms: z.array(z.string()),
  bytes: z
    .number()
    .int()
    .optional()
    .describe(
      'Bytes of the config and the layers, of all platforms; absent where they are unknown',
    ),
};
const next = z.string().optional().describe('`last` of the next page; absent on the last page');
const last = z.string().max(255).optional().describe('`next` of the page before');
const repository = z
  .string()
  .max(maxNameLength, `is longer than ${maxNameLength} characters`)
  .regex(repositoryPattern, 'must be the name of a repository')
  .describe('Name of a repository of this server, without the host');
const ofRepository = z.object({ repository, last });

const shared = { method: 'get', tag: 'Repositories', access: 'caller' } as const;

/** Lists of hosted repositories with sizes and pulls. A caller sees what the registry lets the caller pull. */
export const repositoryRoutes = [
  apiRoute({
    ...shared,
    id: 'listRepositories',
    path: '/v1alpha1/repositories',
    summary: 'Hosted repositories that the caller may pull, with sizes and pulls',
    query: z.object({
      find: z.string().max(255).optional().describe('A part of the name. Default: all'),
      last,
    }),
    responses: ok(
      z.object({
        repositories: z.array(z.object({ name: z.string(), bytes: z.number().int(), ...pulled })),
        next,
      }),
      'A page of the list',
    ),
    async run({ ctx, caller, query }, { repositories }: RepositoryRoutesDeps) {
      const rights = await listRights(ctx.req, caller, repositories);
      const { find = '', last: after = '' } = query;
      const list = await listRepositories(rights, find.toLowerCase(), after, repositories);
      return {
        repositories: list.repositories.map(({ name, bytes, pulls }) => ({
          name,
          bytes,
          ...pullsOf(pulls),
        })),
        ...nextOf(list.next),
      };
    },
  }),
  apiRoute({
    ...shared,
    id: 'listTags',
    path: '/v1alpha1/repositories/tags',
    summary: 'Tags of a hosted repository, with digests, sizes and pulls',
    query: ofRepository,
    responses: ok(
      z.object({ tags: z.array(z.object({ tag: z.string(), ...image, ...pulled })), next }),
      'A page of the list',
    ),
    faults: ['not-found'],
    async run(
      { ctx, caller, query: { repository, last: after = '' } },
      deps: RepositoryRoutesDeps,
    ) {
      await pullRights(ctx.req, caller, repository, deps.repositories);
      const { tags, next } = await viewRepository(repository, after, deps.repositories);
      return {
        tags: tags.map(({ tag, pulls, ...shown }) => ({
          tag,
          ...imageOf(shown),
          ...pullsOf(pulls),
        })),
        ...nextOf(next),
      };
    },
  }),
  apiRoute({
    ...shared,
    id: 'listUntaggedImages',
    path: '/v1alpha1/repositories/untagged',
    summary: 'Images of a hosted repository that no tag names, for callers who may delete them',
    query: ofRepository,
    responses: ok(
      z.object({ images: z.array(z.object({ ...image, ...pulled })), next }),
      'A page of the list',
    ),
    faults: ['not-found'],
    async run(
      { ctx, caller, query: { repository, last: after = '' } },
      deps: RepositoryRoutesDeps,
    ) {
      const rights = await pullRights(ctx.req, caller, repository, deps.repositories);
      if (!rights(repository).includes('delete')) throw mayNotDelete(repository);
      const { images, next } = await listUntagged(repository, after, deps.repositories);
      return {
        images: images.map(({ pulls, ...shown }) => ({ ...imageOf(shown), ...pullsOf(pulls) })),
        ...nextOf(next),
      };
    },
  }),
];

function imageOf({ digest, platforms, bytes }: ShownManifest) {
  return { digest, platforms, ...(bytes === undefined ? {} : { bytes }) };
}

function pullsOf({ count, lastAt }: RecentPulls) {
  return {
    recentPulls: count,
    ...(lastAt === undefined ? {} : { lastPulledAt: new Date(lastAt).toISOString() }),
  };
}

function nextOf(next: string | undefined) {
  return next === undefined ? {} : { next };
}
