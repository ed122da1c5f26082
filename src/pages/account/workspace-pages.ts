import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { pathNumber } from '../../http/route/index.ts';
import type { Workspace } from '../../platform/built-in/index.ts';
import type { Listed, UserRow } from '../../storage/rows/index.ts';
import { readFormBody } from '../frame/form-body.ts';
import { countText, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';
import type { AccountDeps } from './account-page.ts';

const path = '/view/account/workspaces';
const access = 'administrator' as const;
const params = { workspaceId: pathNumber };

/** The pages where administrators see and change workspaces and their members, with the right that the API requires. */
export const workspaceRoutes = [
  pageRoute({
    method: 'get',
    path: `${path}/{workspaceId}`,
    access,
    role: 'any',
    params,
    query: z.object({ from: z.coerce.number().int().min(0).max(1e9).default(0) }),
    run: ({ params: { workspaceId }, query: { from } }, deps: AccountDeps) =>
      show(workspaceId, from, deps),
  }),
  pageRoute({
    method: 'post',
    path,
    access,
    async run({ ctx }, { platform, recordAudit }: AccountDeps) {
      const form = await readFormBody(ctx.req);
      const { id, name } = await platform.workspaces.add(form.get('name')?.trim() ?? '');
      recordAudit(ctx.req, 'workspace.add', name);
      return { location: `${path}/${id}` };
    },
  }),
  pageRoute({
    method: 'post',
    path: `${path}/{workspaceId}/members`,
    access,
    role: 'credentials',
    params,
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
    method: 'post',
    path: `${path}/{workspaceId}/members/{userId}/remove`,
    access,
    role: 'credentials',
    params: { ...params, userId: pathNumber },
    async run({ ctx, params: { workspaceId, userId } }, { platform, recordAudit }: AccountDeps) {
      const { id, name } = await platform.workspaces.get(workspaceId);
      await platform.workspaces.removeMember(id, userId);
      const { email } = await platform.users.get(userId);
      recordAudit(ctx.req, 'workspace.remove-member', `${email} in ${name}`);
      return { location: `${path}/${id}` };
    },
  }),
];

async function addMember(
  { req }: Pick<ParameterizedContext, 'req'>,
  workspaceId: number,
  email: string,
  { platform, recordAudit }: AccountDeps,
): Promise<void> {
  const user = await platform.users.withEmail(email);
  const { id, name } = await platform.workspaces.get(workspaceId);
  await platform.workspaces.addMember(id, user.id);
  recordAudit(req, 'workspace.add-member', `${user.email} in ${name}`);
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

/** What the page of a workspace shows. */
interface WorkspaceView {
  readonly workspace: Workspace;
  readonly members: Listed<UserRow>;
  /** Number of members before those that are shown. */
  readonly from: number;
  /** Why the last form changed nothing. */
  readonly problem: Fault | undefined;
}

/** Members on one page. */
const membersAtOnce = 100;

/** Returns the page of a workspace, for administrators. */
function workspacePage({ workspace, members, from, problem }: WorkspaceView): Page {
  const { id, name } = workspace;
  const { entries, total } = members;
  const address = `/view/account/workspaces/${id}`;
  const next = from + entries.length;
  return {
    title: `Workspace ${name}`,
    ...(problem ? { status: problem.apiStatus } : {}),
    content: html`<h1>Workspace ${name}</h1>
${problem && html`<p class="failure" role="alert">${problem.message}</p>`}
<p>Its members share credentials of registries. <a href="/view/account">All workspaces</a></p>
<h2>Members</h2>
${
  entries.length === 0
    ? html`<p class="minor">None.</p>`
    : html`<p class="minor">${countText(total)} in all.</p><div class="wide"><table class="cards-on-phones">
<thead><tr><th scope="col">User</th><th scope="col">Change</th></tr></thead>
<tbody>${entries.map(
        ({ id: user, email }) =>
          html`<tr><td>${email}</td><td><form method="post" action="${address}/members/${user}/remove"><button class="danger" aria-label="Remove ${email}">Remove</button></form></td></tr>`,
      )}</tbody></table></div>`
}
<p class="paging">${from > 0 && html`<a href="${address}?from=${Math.max(0, from - membersAtOnce)}">Earlier members</a>`} ${next < total && html`<a href="${address}?from=${next}">More members</a>`}</p>
<form method="post" action="${address}/members">
<label for="user">New member</label>
<p class="hint" id="user-hint">E-mail address of a user of this server.</p>
<input id="user" name="user" type="email" maxlength="300" required autocomplete="off" aria-describedby="user-hint">
<p><button>Add</button></p>
</form>`,
  };
}
