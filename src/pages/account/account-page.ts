import type { ParameterizedContext } from 'koa';
import { Fault } from '../../foundation/fault.ts';
import { dayMs, dayOf } from '../../foundation/telemetry/counted.ts';
import { type Account, type Accounts, rolesOf } from '../../hosted/accounts/index.ts';
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
  type KeptCredentials,
  type TokenRights,
  type TokenScope,
  tokenScopes,
  unknownCredentials,
  type Workspace,
} from '../../platform/built-in/index.ts';
import type { CredentialOwner, Listed } from '../../storage/rows/index.ts';
import { readFormBody } from '../frame/form-body.ts';
import { dayElement, type Html, html, timeElement } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { type PageResponse, pageRoute, type Viewer } from '../frame/page-route.ts';
import { holderOf, type OwnThings, ownThings, requireHolder } from './own-things.ts';

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

/** What the page of a login shows. */
interface AccountView {
  readonly name: string;
  /** Undefined for a user of a platform. */
  readonly account: Account | undefined;
  /** The limits of the token of a user of the platform of this server; undefined for none. */
  readonly limits: TokenRights | undefined;
  /** Undefined for users of other platforms, for accounts, and for a token that may not manage them. */
  readonly things: OwnThings | undefined;
  /** A token that was just created: its value is shown once. */
  readonly newToken?: { readonly name: string; readonly value: string };
  /** All workspaces, for administrators. */
  readonly workspaces: Listed<Workspace> | undefined;
  readonly now: number;
  /** Why the last form changed nothing. */
  readonly problem?: string;
}

function accountPage(view: AccountView, status = 200): Page {
  const { name, account, limits, things, workspaces, newToken, problem, now } = view;
  return {
    title: 'Your login',
    status,
    content: html`<h1>${name}</h1>
${problem !== undefined && html`<p class="failure" role="alert">${problem}</p>`}
<dl class="facts">
<dt>Kind</dt><dd>${account ? 'account of this server' : 'user of a workflow platform'}</dd>
${account && html`<dt>Rights</dt><dd>${rightsOf(account)}</dd>`}
${limits && html`<dt>Token</dt><dd>${limitsOf(limits)}</dd>`}
</dl>
<form method="post" action="/view/logout"><button class="quiet">Log out</button></form>
${newToken && newTokenPart(newToken)}
${things && [tokensPart(things, now), credentialsPart(things), workspacesPart(things)]}
${workspaces && allWorkspacesPart(workspaces)}`,
  };
}

function rightsOf(account: Account): Html {
  const { repositories, roles } = account;
  if (!repositories && !roles) return html`administrator of this server`;
  const administers = rolesOf(account);
  return html`<ul class="plain">${
    administers.length > 0 && html`<li>administrator: ${administers.join(', ')}</li>`
  }${Object.entries(repositories ?? {}).map(
    ([pattern, role]) => html`<li><code>${pattern}</code>: ${role}</li>`,
  )}</ul>`;
}

const scopeWords: Readonly<Record<TokenScope, string>> = {
  pull: 'log in to pull images',
  request: 'request containers',
  build: 'build images',
  manage: 'manage my tokens, and read my credentials of registries',
};

function limitsOf(limits: TokenRights | undefined): Html {
  if (!limits) return html`everything`;
  const { scopes, repositories } = limits;
  const only = repositories?.map((pattern, at) => html`${at > 0 && ', '}<code>${pattern}</code>`);
  return html`${scopes.join(', ')}${only && html` of ${only}`}`;
}

function newTokenPart({ name, value }: { readonly name: string; readonly value: string }): Html {
  return html`<section class="card" role="status">
<h2>Access token ‘${name}’</h2>
<p>Copy it now: this page shows it only once.</p>
<div class="copy"><pre>${value}</pre></div>
</section>`;
}

const day = (text: string | null) => (text === null ? 'never' : dayElement(text));

const lives = [
  [30, 'in 30 days'],
  [90, 'in 90 days'],
  [365, 'in a year'],
] as const;

function tokensPart({ tokens, until, rights }: OwnThings, now: number): Html {
  const offered = lives.filter(([days]) => until === null || now + days * dayMs < until);
  return html`<h2>Access tokens</h2>
<p>Pipelines and programs use them in place of a password.</p>
<div class="wide"><table class="cards-on-phones">
<thead><tr><th scope="col">Name</th><th scope="col">May</th><th scope="col">Created</th><th scope="col">Last used</th><th scope="col">Expires</th><th scope="col">Change</th></tr></thead>
<tbody>${tokens.map(
    ({ id, name, createdAt, usedDay, expiresAt, rights: ofToken, creator }) => html`<tr>
<td>${name}</td><td data-label="May">${limitsOf(ofToken)}</td><td data-label="Created">${timeElement(createdAt)}${creator !== null && html` by ${creator}`}</td><td data-label="Last used">${day(usedDay)}</td>
<td data-label="Expires">${expiresAt === null ? 'never' : timeElement(expiresAt)}</td>
<td><form method="post" action="/view/account/tokens/${id}/revoke"><button class="danger" aria-label="Revoke ${name}">Revoke</button></form></td>
</tr>`,
  )}</tbody>
</table></div>
<details><summary>Create an access token</summary>
<form method="post" action="/view/account/tokens">
<label for="token-name">Name</label>
<input id="token-name" name="name" maxlength="100" required autocomplete="off">
<label for="token-days">Expires</label>
<select id="token-days" name="days">
${offered.map(([days, text]) => html`<option value="${days}">${text}</option>`)}<option value="">${until === null ? 'never' : html`with the token of this login, ${dayOf(until)}`}</option>
</select>
<fieldset><legend>What it may do</legend>
${tokenScopes
  .filter(scope => hasScope(rights, scope))
  .map(
    scope =>
      html`<label><input type="checkbox" name="scope" value="${scope}"${scope !== 'manage' && html` checked`}> ${scopeWords[scope]}</label>`,
  )}
</fieldset>
<label for="token-repositories">Only these repositories</label>
<p class="hint" id="token-repositories-hint">Patterns such as <code>team/*</code> of this server, or <code>quay.io/team/*</code>. Leave it empty for all.</p>
<input id="token-repositories" name="repositories" maxlength="2000" autocomplete="off" aria-describedby="token-repositories-hint">
<p><button>Create</button></p>
</form></details>`;
}

function credentialsPart({ credentials, workspaces }: OwnThings): Html {
  const ownerOf = ({ owner }: KeptCredentials) =>
    owner.kind === 'user' ? 'you' : (workspaces.find(({ id }) => id === owner.id)?.name ?? '');
  return html`<h2>Credentials of registries</h2>
<p>Images of these registries are pulled with your own rights, and with those of a workspace where a request names it.</p>
${
  credentials.length === 0
    ? html`<p class="minor">None yet.</p>`
    : html`<div class="wide"><table class="cards-on-phones">
<thead><tr><th scope="col">Name</th><th scope="col">Registry</th><th scope="col">User</th><th scope="col">Of</th><th scope="col">Last used</th><th scope="col">Change</th></tr></thead>
<tbody>${credentials.map(one => {
        const { id, name, provider, shown, usedDay } = one;
        return html`<tr>
<td>${name}</td><td data-label="Registry">${shown.registry ?? provider}</td><td data-label="User">${shown.userName ?? shown.accessKey ?? shown.clientId}</td><td data-label="Of">${ownerOf(one)}</td><td data-label="Last used">${day(usedDay)}</td>
<td><form method="post" action="/view/account/credentials/${id}/remove"><button class="danger" aria-label="Remove ${name}">Remove</button></form></td>
</tr>`;
      })}</tbody>
</table></div>`
}
<details><summary>Add credentials</summary>
<form method="post" action="/view/account/credentials">
<label for="registry">Registry</label>
<p class="hint" id="registry-hint">Its host, such as <code>quay.io</code>. Docker Hub is <code>docker.io</code>.</p>
<input id="registry" name="registry" maxlength="300" required aria-describedby="registry-hint">
<label for="user">User name</label>
<input id="user" name="userName" maxlength="300" required autocomplete="off">
<label for="secret">Password or token</label>
<input id="secret" name="password" type="password" required autocomplete="off">
${
  workspaces.length > 0 &&
  html`<label for="owner">Who may use them</label>
<select id="owner" name="workspace"><option value="">only you</option>${workspaces.map(
    ({ id, name }) => html`<option value="${id}">members of ${name}</option>`,
  )}</select>`
}
<p class="hint">This server asks the registry at once, and keeps the credentials only if it accepts them.</p>
<p><button>Check and add</button></p>
</form></details>`;
}

function workspacesPart({ workspaces }: OwnThings): Html {
  if (workspaces.length === 0) return html`<h2>Workspaces</h2><p class="minor">None.</p>`;
  return html`<h2>Workspaces</h2>
<p class="minor">You are a member of these. Administrators of the server change their members.</p>
<div class="wide"><table>
<thead><tr><th scope="col">Name</th><th scope="col" class="number">Number</th></tr></thead>
<tbody>${workspaces.map(
    ({ id, name }) => html`<tr><td>${name}</td><td class="number">${id}</td></tr>`,
  )}</tbody>
</table></div>`;
}

function allWorkspacesPart({ entries, total }: Listed<Workspace>): Html {
  return html`<h2>Workspaces</h2>
<p>Members of a workspace share credentials of registries.</p>
${
  entries.length > 0 &&
  html`<div class="wide"><table>
<thead><tr><th scope="col">Name</th><th scope="col" class="number">Number</th></tr></thead>
<tbody>${entries.map(
    ({ id, name }) =>
      html`<tr><td><a href="/view/account/workspaces/${id}">${name}</a></td><td class="number">${id}</td></tr>`,
  )}</tbody>
</table></div>`
}
${total > entries.length && html`<p class="minor">${total - entries.length} more are not shown: <code>sluice workspace list</code> has all.</p>`}
<form method="post" action="/view/account/workspaces">
<label for="workspace">New workspace</label>
<input id="workspace" name="name" maxlength="63" required autocomplete="off">
<p><button>Add</button></p>
</form>`;
}
