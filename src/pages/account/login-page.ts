import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import type { Accounts } from '../../hosted/accounts/index.ts';
import { faultHeaders } from '../../http/index.ts';
import { readFormBody } from '../frame/form-body.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute, type ViewerDeps, viewerWith } from '../frame/page-route.ts';
import type { BrowserLogin } from '../frame/sessions.ts';

const mostOfName = 200;
const toQuery = z.object({ to: z.string().max(2000).optional() });

export interface LoginDeps extends ViewerDeps {
  readonly accounts: Accounts;
}

/** Pages where a person logs in and out. */
export const loginRoutes = [
  pageRoute({
    method: 'get',
    path: '/view/login',
    access: 'unchecked',
    query: toQuery,
    run: ({ query }, { accounts }: LoginDeps) =>
      loginPage(localAddress(query.to), accounts.size > 0),
  }),
  pageRoute({
    method: 'post',
    path: '/view/login',
    access: 'unchecked',
    async run({ ctx }, deps: LoginDeps) {
      const { sessions, cookie, accounts } = deps;
      const form = await readFormBody(ctx.req);
      const to = localAddress(form.get('to') ?? undefined);
      const login = loginIn(form);
      const name = form.get('name')?.trim().slice(0, mostOfName);
      const refused = (problem: string, status: number) =>
        loginPage(to, accounts.size > 0, { problem, status, name });
      if (!login) return refused('Enter a name and a password, or an access token.', 400);
      const old = cookie.read(ctx.req);
      delete ctx.req.headers.cookie;
      ctx.req.headers.authorization = login.authorization;
      try {
        const person = await viewerWith(ctx, login.platformEndpoint, deps);
        const { caller } = person;
        if (person.name === undefined || caller.user === undefined) {
          return refused('This server does not know that access token.', 403);
        }
        if (old !== undefined) await sessions.end(old);
        ctx.append('set-cookie', cookie.set(await sessions.begin(login, caller.user)));
        return { location: to };
      } catch (error) {
        if (!(error instanceof Fault) || error.apiStatus >= 500) throw error;
        const { 'www-authenticate': _, ...headers } = faultHeaders(error);
        ctx.set(headers);
        // The words for programs say how to send a login.
        if (error.apiStatus === 401 && login.authorization.startsWith('Basic ')) {
          return refused('The name or the password is wrong.', 403);
        }
        const status = error.apiStatus === 401 ? 403 : error.apiStatus;
        return refused(`You are not logged in: ${error.message}`, status);
      }
    },
  }),
  pageRoute({
    method: 'post',
    path: '/view/logout',
    access: 'unchecked',
    async run({ ctx }, { sessions, cookie }: ViewerDeps) {
      const value = cookie.read(ctx.req);
      if (value !== undefined) await sessions.end(value);
      ctx.append('set-cookie', cookie.remove());
      return { location: '/' };
    },
  }),
];

function loginIn(form: URLSearchParams): BrowserLogin | undefined {
  const field = (name: string) => form.get(name)?.trim() ?? '';
  const token = field('token');
  // A header holds visible characters only.
  if (/^[\x21-\x7e]{1,8000}$/.test(token)) {
    const platformEndpoint = field('platform') || undefined;
    return { authorization: `Bearer ${token}`, platformEndpoint };
  }
  const [name, password] = [field('name'), form.get('password') ?? ''];
  if (name === '' || password === '' || name.includes(':')) return undefined;
  const basic = Buffer.from(`${name}:${password}`).toString('base64');
  return basic.length > 8000 ? undefined : { authorization: `Basic ${basic}` };
}

interface Refusal {
  readonly problem: string;
  readonly status: number;
  /** The name that the person has entered, if any. */
  readonly name: string | undefined;
}

function loginPage(to: string, hasAccounts: boolean, refusal?: Refusal): Page {
  const form = (title: string, fields: Html) => html`<section class="card">
<h2>${title}</h2>
<form method="post" action="/view/login">
<input type="hidden" name="to" value="${to}">
${fields}
<p><button>Log in</button></p>
</form>
</section>`;
  return {
    title: 'Log in',
    ...(refusal && { status: refusal.status }),
    content: html`<h1>Log in</h1>
${refusal && html`<p class="failure" role="alert">${refusal.problem}</p>`}
<div class="cards">
${
  hasAccounts &&
  form(
    'With an account of this server',
    html`<label for="name">Name</label>
<input id="name" name="name" value="${refusal?.name}" autocomplete="username" maxlength="${mostOfName}" required>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required>`,
  )
}
${form(
  'With an access token',
  html`<label for="token">Access token of a workflow platform</label>
${!hasAccounts && html`<p class="hint" id="token-hint">On a server of your own, <code>sluice user add EMAIL</code> and then <code>sluice token add --user EMAIL --name browser</code> make one.</p>`}
<input id="token"${!hasAccounts && html` aria-describedby="token-hint"`} name="token" type="password" autocomplete="off" required>
<label for="platform">Address of the platform</label>
<p class="hint" id="platform-hint">Leave it empty for the platform of this server.</p>
<input id="platform" name="platform" type="url" aria-describedby="platform-hint" maxlength="500">`,
)}
</div>`,
  };
}

const here = 'http://sluice.invalid';

/** Returns an address of this server for a redirect; `/` for an address of another host, or for none. */
export function localAddress(text: string | undefined): string {
  // Browsers treat a backslash as a slash, and leave out control characters.
  const url = text?.startsWith('/') ? URL.parse(text, here) : null;
  return url?.origin === here ? url.pathname.replace(/^\/+/, '/') + url.search : '/';
}
