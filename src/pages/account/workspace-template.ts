import type { Fault } from '../../foundation/fault.ts';
import type { Workspace } from '../../platform/built-in/workspaces.ts';
import type { Listed } from '../../storage/rows/people/page.ts';
import type { UserRow } from '../../storage/rows/people/user-rows.ts';
import { countText } from '../frame/formats.ts';
import { html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';

/** What the page of a workspace shows. */
export interface WorkspaceView {
  readonly workspace: Workspace;
  readonly members: Listed<UserRow>;
  /** Number of members before those that are shown. */
  readonly from: number;
  /** Why the last form changed nothing. */
  readonly problem: Fault | undefined;
}

/** Members on one page. */
export const membersAtOnce = 100;

/** Returns the page of a workspace, for administrators. */
export function workspacePage({ workspace, members, from, problem }: WorkspaceView): Page {
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
