import type { Account, Accounts } from '../../hosted/accounts/accounts.ts';
import { readBasic } from '../../http/callers/basic-auth.ts';
import { html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';

export interface AccountDeps {
  readonly accounts: Accounts;
}

/** The page of the person who is logged in. */
export const accountRoutes = [
  pageRoute({
    method: 'get',
    path: '/view/account',
    access: 'anybody',
    run({ ctx, viewer }, { accounts }: AccountDeps) {
      if (viewer.name === undefined) return { location: '/view/login?to=/view/account' };
      const account = readBasic(ctx.req.headers.authorization)?.name;
      return accountPage(viewer.name, account === undefined ? undefined : accounts.get(account));
    },
  }),
];

function accountPage(name: string, account: Account | undefined): Page {
  const rights = account?.repositories;
  return {
    title: 'Your login',
    content: html`<h1>${name}</h1>
<dl class="facts">
<dt>Kind</dt><dd>${account ? 'account of this server' : 'user of a workflow platform'}</dd>
${
  account &&
  html`<dt>Rights</dt><dd>${
    rights === undefined
      ? 'administrator of this server'
      : html`hosted repositories: <ul>${Object.entries(rights).map(
          ([repository, right]) => html`<li><code>${repository}</code> ${String(right)}</li>`,
        )}</ul>`
  }</dd>`
}
</dl>
<form method="post" action="/view/logout"><button class="quiet">Log out</button></form>`,
  };
}
