import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { listRepositories, listUntagged, viewRepository } from '../../hosted/index.ts';
import type { RecordAudit } from '../../http/index.ts';
import {
  type ListedRepositories,
  listRights,
  mayNotDelete,
  pullRights,
} from '../../http/registry/index.ts';
import { isDigest } from '../../oci/digest.ts';
import { isRepository, isTag } from '../../oci/naming.ts';
import { pageRoute } from '../frame/page-route.ts';
import { viewDeletion } from './deletion.ts';
import { optional } from './optional-field.ts';
import {
  contentAddress,
  deletionPage,
  repositoryListPage,
  repositoryPage,
} from './repository-pages.ts';

export interface RepositoryPagesDeps {
  readonly repositories: ListedRepositories;
  readonly recordAudit: RecordAudit;
  readonly publicUrl: URL;
}

const name = z.string().refine(isRepository, 'must be the name of a repository');
const reference = z
  .string()
  .refine(text => isTag(text) || isDigest(text), 'must be a tag or a digest');
const last = optional(z.string().max(255));

/** Pages of hosted repositories. Their rights are those of the registry. */
export const repositoryRoutes = [
  pageRoute({
    method: 'get',
    path: '/view/repositories',
    access: 'anybody',
    query: z.object({ find: optional(z.string().trim().max(255)), last }),
    async run({ ctx, query, viewer }, { repositories }: RepositoryPagesDeps) {
      const { find = '', last: after = '' } = query;
      const rights = await listRights(ctx.req, repositories);
      const list = await listRepositories(rights, find.toLowerCase(), after, repositories);
      return repositoryListPage(list, { find, after, hasLogin: viewer.name !== undefined });
    },
  }),
  pageRoute({
    method: 'get',
    path: '/view/repositories/content',
    access: 'anybody',
    query: z.object({ name, last, untagged: optional(reference), deleted: optional(reference) }),
    async run({ ctx, query }, { repositories, publicUrl }: RepositoryPagesDeps) {
      const { name, last: after = '', untagged = '', deleted } = query;
      const rights = await pullRights(ctx.req, name, repositories);
      const view = await viewRepository(name, after, repositories);
      const mayDelete = rights(name).includes('delete');
      const images = mayDelete ? await listUntagged(name, untagged, repositories) : undefined;
      const place = { host: publicUrl.host, after, untagged, mayDelete, deleted };
      return repositoryPage(view, images, place);
    },
  }),
  pageRoute({
    method: 'get',
    path: '/view/repositories/delete',
    access: 'anybody',
    query: z.object({ name, reference }),
    async run({ ctx, query }, { repositories }: RepositoryPagesDeps) {
      await requireDelete(ctx.req, query.name, repositories);
      return deletionPage(await viewDeletion(query.name, query.reference, repositories));
    },
  }),
  pageRoute({
    method: 'post',
    path: '/view/repositories/delete',
    access: 'anybody',
    query: z.object({ name, reference }),
    async run({ ctx, query }, { repositories, recordAudit }: RepositoryPagesDeps) {
      const { name, reference } = query;
      await requireDelete(ctx.req, name, repositories);
      await repositories.manifests.remove(name, reference);
      recordAudit(ctx.req, 'manifest.delete', `${name} ${reference}`);
      const isLeft = await repositories.store.hasRepository(name);
      return {
        location: isLeft ? contentAddress(name, { deleted: reference }) : '/view/repositories',
      };
    },
  }),
];

async function requireDelete(
  request: IncomingMessage,
  name: string,
  repositories: RepositoryPagesDeps['repositories'],
): Promise<void> {
  const rights = await pullRights(request, name, repositories);
  if (rights(name).includes('delete')) return;
  throw mayNotDelete(name);
}
