import type { ParameterizedContext } from 'koa';
import { Fault } from '../../foundation/fault.ts';
import { dayMs } from '../../foundation/telemetry/counted.ts';
import type { Accounts } from '../../hosted/accounts/index.ts';
import { isAccepted, type ValidateDeps } from '../../http/api/index.ts';
import {
  describeCredentials,
  describeToken,
  type RecordAudit,
  readBasic,
} from '../../http/index.ts';
import { pathNumber } from '../../http/route/index.ts';
import {
  type BuiltInPlatform,
  hasScope,
  unknownCredentials,
} from '../../platform/built-in/index.ts';
import type { CredentialOwner } from '../../storage/rows/index.ts';
import { readFormBody } from '../frame/form-body.ts';
import { type PageResponse, pageRoute, type Viewer } from '../frame/page-route.ts';
import { type AccountView, accountPage } from './account-template.ts';
import { holderOf, ownThings, requireHolder } from './own-things.ts';

export interface AccountDeps extends ValidateDeps {
  readonly accounts: Accounts;
  readonly platform: BuiltInPlatform;
  readonly recordAudit: RecordAudit;
}

interface Call {
  readonly ctx: Pick<ParameterizedContext, 'req'>;
  readonly viewer: Viewer;
}

const path = '/view/account';
const back = { location: path };
const shownWorkspaces = { limit: 200, offset: 0 };

/** The page of the person who is logged in, and what they change on it. */
export const accountRoutes = [
  pageRoute({
    method: 'get',
    path,
    access: 'anybody',
    run: (call, deps: AccountDeps) => show(call, deps),
  }),
  pageRoute({
    method: 'post',
    path: `${path}/tokens`,
    access: 'anybody',
    async run({ ctx, viewer }, deps: AccountDeps) {
      const { user, token: used } = await requireHolder(ctx, deps.platform);
      const form = await readFormBody(ctx.req);
      return attempt({ ctx, viewer }, deps, async () => {
        const scopes = form.getAll('scope');
        const patterns = (form.get('repositories') ?? '').split(/[\s,]+/).filter(Boolean);
        const { value, token } = await deps.platform.tokens.create(
          {
            user: user.id,
            name: form.get('name') ?? '',
            expiresAt: expirationIn(form),
            // A form without a mark is not one for everything.
            scopes,
            repositories: patterns.length === 0 ? undefined : patterns,
          },
          { until: used.expiresAt ?? undefined, rights: used.rights },
        );
        deps.recordAudit(ctx.req, 'token.create', describeToken(token, user.email));
        return show({ ctx, viewer }, deps, { newToken: { name: token.name, value } });
      });
    },
  }),
  pageRoute({
    method: 'post',
    path: `${path}/tokens/{tokenId}/revoke`,
    access: 'anybody',
    params: { tokenId: pathNumber },
    async run({ ctx, params }, { platform, recordAudit }: AccountDeps) {
      const { user } = await requireHolder(ctx, platform);
      const { name } = await platform.tokens.revoke(params.tokenId, user.id);
      recordAudit(ctx.req, 'token.revoke', `'${name}' of ${user.email}`);
      return back;
    },
  }),
  pageRoute({
    method: 'post',
    path: `${path}/credentials`,
    access: 'requests',
    limit: 'requests',
    async run({ ctx, viewer }, deps: AccountDeps) {
      const { user } = await requireHolder(ctx, deps.platform);
      const form = await readFormBody(ctx.req);
      const field = (name: string) => form.get(name) ?? '';
      return attempt({ ctx, viewer }, deps, async () => {
        const owner = await ownerIn(form, user.id, deps.platform);
        const [registry, userName] = [field('registry').trim(), field('userName').trim()];
        const password = field('password');
        if (!(await isAccepted(ctx.req, { registry, userName, password }, deps))) {
          throw new Fault(
            'bad-request',
            `${registry} does not accept this user name and password: nothing was kept`,
          );
        }
        const keys = { kind: 'container-reg', username: userName, password, registry } as const;
        const kept = await deps.platform.vault.add({ owner, keys });
        const about = await describeCredentials(kept, deps.platform);
        deps.recordAudit(ctx.req, 'credentials.add', about);
        return back;
      });
    },
  }),
  pageRoute({
    method: 'post',
    path: `${path}/credentials/{credentialsId}/remove`,
    access: 'anybody',
    async run({ ctx, params: { credentialsId } }, { platform, recordAudit }: AccountDeps) {
      const { user } = await requireHolder(ctx, platform);
      const kept = await platform.vault.find(credentialsId);
      const { owner } = kept;
      const mayRemove =
        owner.kind === 'user'
          ? owner.id === user.id
          : await platform.workspaces.hasMember(owner.id, user.id);
      if (!mayRemove) throw unknownCredentials(credentialsId);
      const about = await describeCredentials(kept, platform);
      await platform.vault.remove(credentialsId);
      recordAudit(ctx.req, 'credentials.remove', about);
      return back;
    },
  }),
];

async function show(
  { ctx, viewer: { name, roles } }: Call,
  { accounts, platform }: AccountDeps,
  more: Pick<AccountView, 'newToken' | 'problem'> = {},
  status = 200,
): Promise<PageResponse> {
  if (name === undefined) return { location: `/view/login?to=${path}` };
  const account = readBasic(ctx.req.headers.authorization)?.name;
  const holder = await holderOf(ctx, platform);
  const view = {
    name,
    ...more,
    account: account === undefined ? undefined : accounts.get(account),
    limits: holder?.token.rights,
    things:
      holder && hasScope(holder.token.rights, 'manage')
        ? await ownThings(holder, platform)
        : undefined,
    workspaces: roles.length > 0 ? await platform.workspaces.list({}, shownWorkspaces) : undefined,
    now: Date.now(),
  };
  return accountPage(view, status);
}

/** Returns when the token of a form expires; undefined for the default. Throws a {@link Fault} (400). */
function expirationIn(form: URLSearchParams): number | undefined {
  const days = form.get('days') ?? '';
  if (days === '') return undefined;
  if (/^\d{1,5}$/.test(days)) return Date.now() + Number(days) * dayMs;
  throw new Fault('bad-request', 'Enter a whole number of days until the token expires');
}

/** Returns the owner that a form names: the user, or a workspace of which the user is a member. */
async function ownerIn(
  form: URLSearchParams,
  user: number,
  { workspaces }: BuiltInPlatform,
): Promise<CredentialOwner> {
  const workspace = Number(form.get('workspace'));
  if (!workspace) return { kind: 'user', id: user };
  await workspaces.requireMember(workspace, user);
  return { kind: 'workspace', id: workspace };
}

/** Shows the page with the reason when a change is refused. */
async function attempt(
  call: Call,
  deps: AccountDeps,
  change: () => Promise<PageResponse>,
): Promise<PageResponse> {
  try {
    return await change();
  } catch (error) {
    if (!(error instanceof Fault) || error.apiStatus >= 500) throw error;
    return show(call, deps, { problem: error.message }, error.apiStatus);
  }
}
