import { dayMs, dayOf } from '../../foundation/telemetry/counted.ts';
import { type Account, rolesOf } from '../../hosted/accounts/index.ts';
import {
  hasScope,
  type KeptCredentials,
  type TokenRights,
  type TokenScope,
  tokenScopes,
  type Workspace,
} from '../../platform/built-in/index.ts';
import type { Listed } from '../../storage/rows/index.ts';
import { dayElement, timeElement } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import type { OwnThings } from './own-things.ts';

/** What the page of a login shows. */
export interface AccountView {
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

export function accountPage(view: AccountView, status = 200): Page {
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
