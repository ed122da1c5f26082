import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { pathNumber } from '../../http/route/declaration.ts';
import { readFormBody } from '../frame/form-body.ts';
import { pageRoute } from '../frame/page-route.ts';
import type { AccountDeps } from './account-page.ts';
import { membersAtOnce, workspacePage } from './workspace-template.ts';

const path = '/view/account/workspaces';
const access = 'administrator' as const;
const params = { workspaceId: pathNumber };

/** The pages where administrators see and change workspaces and their members, with the right that the API requires. */
export const workspaceRoutes = [
  pageRoute({
    ...{ method: 'get', path: `${path}/{workspaceId}`, access, role: 'any', params },
    query: z.object({ from: z.coerce.number().int().min(0).max(1e9).default(0) }),
    run: ({ params: { workspaceId }, query: { from } }, deps: AccountDeps) =>
      show(workspaceId, from, deps),
  }),
  pageRoute({
    ...{ method: 'post', path, access },
    async run({ ctx }, { platform, noteDeed }: AccountDeps) {
      const form = await readFormBody(ctx.req);
      const { id, name } = await platform.workspaces.add(form.get('name')?.trim() ?? '');
      noteDeed(ctx.req, 'workspace.add', name);
      return { location: `${path}/${id}` };
    },
  }),
  pageRoute({
    ...{
      method: 'post',
      path: `${path}/{workspaceId}/members`,
      access,
      role: 'credentials',
      params,
    },
    async run({ ctx, params: { workspaceId } }, deps: AccountDeps) {
      const form = await readFormBody(ctx.req);
      try {
        await addMember(ctx, workspaceId, form.get('user') ?? '', deps);
        return { location: `${path}/${workspaceId}` };
      } catch (error) {
        if (!(error instanceof Fault) || error.apiStatus >= 500) throw error;
        return show(workspaceId, 0, deps, error);
      }
    },
  }),
  pageRoute({
    ...{
      method: 'post',
      path: `${path}/{workspaceId}/members/{userId}/remove`,
      access,
      role: 'credentials',
    },
    params: { ...params, userId: pathNumber },
    async run({ ctx, params: { workspaceId, userId } }, { platform, noteDeed }: AccountDeps) {
      const { id, name } = await platform.workspaces.get(workspaceId);
      await platform.workspaces.removeMember(id, userId);
      const { email } = await platform.users.get(userId);
      noteDeed(ctx.req, 'workspace.remove-member', `${email} in ${name}`);
      return { location: `${path}/${id}` };
    },
  }),
];

async function addMember(
  { req }: Pick<ParameterizedContext, 'req'>,
  workspaceId: number,
  email: string,
  { platform, noteDeed }: AccountDeps,
): Promise<void> {
  const user = await platform.users.withEmail(email);
  const { id, name } = await platform.workspaces.get(workspaceId);
  await platform.workspaces.addMember(id, user.id);
  noteDeed(req, 'workspace.add-member', `${user.email} in ${name}`);
}

async function show(
  workspaceId: number,
  from: number,
  { platform: { workspaces } }: AccountDeps,
  problem?: Fault,
) {
  const workspace = await workspaces.get(workspaceId);
  const members = await workspaces.members(workspaceId, { limit: membersAtOnce, offset: from });
  return workspacePage({ workspace, members, from, problem });
}
