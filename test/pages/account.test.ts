/** What users of the built-in platform see and change on the page of their login. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { basic } from '../hosted/push-client.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import {
  type OpenTab,
  requireAccessible,
  startBrowser,
  type TestBrowser,
  widths,
} from './browser-world.ts';

const admin = { name: 'admin', password: 'open sesame' };
const hostile = '"><script>x</script> \' <img src=x onerror=x>';

let browser: TestBrowser;
let registry: Registry;
let sluice: Sluice;
let token: string;
before(async () => {
  browser = await startBrowser();
  registry = await startRegistry({ auth: 'basic' });
  sluice = await startSluice({
    config: {
      accounts: { admin: admin.password },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  token = await newAccessToken(sluice, admin, 'ada@example.org');
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await registry?.stop();
});

async function openAccount(width = 1280): Promise<OpenTab> {
  const tab = await browser.open({ width });
  await tab.page.goto(`${sluice.url}/view/login?to=/view/account`);
  await tab.page.getByLabel('Access token of').fill(token);
  await tab.page.getByRole('button', { name: 'Log in' }).last().click();
  await tab.page.waitForURL('**/view/account');
  return tab;
}

/** Adds a workspace with members, and returns its number. */
async function addWorkspace(name: string, members: readonly string[]): Promise<number> {
  const post = async (path: string, body: object) => {
    const answer = await sluice.fetch(`/platform/workspaces${path}`, {
      method: 'POST',
      headers: { ...basic(admin.name, admin.password), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.ok(answer.ok, await answer.clone().text());
    return (await answer.json()) as { workspace?: { id: number } };
  };
  const { workspace } = await post('', { name });
  assert.ok(workspace);
  for (const user of members) await post(`/${workspace.id}/members`, { user });
  return workspace.id;
}

const whoIs = (value: string) =>
  sluice.fetch('/platform/user-info', { headers: { authorization: `Bearer ${value}` } });

test('a user creates an access token, sees it once, and revokes it', async () => {
  await using tab = await openAccount();
  const { page } = tab;
  await page.getByText('Create an access token').click();
  await page.locator('#token-name').fill('pipeline');
  await page.getByRole('button', { name: 'Create' }).click();
  const value = await page.locator('section[role=status] pre').innerText();
  assert.equal((await whoIs(value)).status, 200);
  await page.goto(`${sluice.url}/view/account`);
  assert.ok(!(await page.content()).includes(value));
  await page.getByRole('button', { name: 'Revoke pipeline' }).click();
  await page.getByRole('button', { name: 'Revoke pipeline' }).waitFor({ state: 'detached' });
  assert.notEqual((await whoIs(value)).status, 200);
});

test('a name that is taken is refused on the page', async () => {
  await using tab = await openAccount();
  await tab.page.getByText('Create an access token').click();
  await tab.page.locator('#token-name').fill('test');
  const answer = tab.page.waitForResponse(response => response.request().method() === 'POST');
  await tab.page.getByRole('button', { name: 'Create' }).click();
  assert.equal((await answer).status(), 409);
  assert.match(await tab.page.getByRole('alert').innerText(), /already has an access token 'test'/);
  // The browser writes an answer with an error status to its console.
  tab.expectProblem(/409/);
});

test('credentials are kept only if the registry accepts them', async () => {
  await using tab = await openAccount();
  const { page } = tab;
  const add = async (password: string) => {
    await page.getByText('Add credentials').click();
    await page.getByLabel('Registry', { exact: true }).fill(registry.host);
    await page.getByLabel('User name').fill(registry.username);
    await page.getByLabel('Password or token').fill(password);
    await page.getByRole('button', { name: 'Check and add' }).click();
  };
  await add('wrong');
  assert.match(await page.getByRole('alert').innerText(), /does not accept this user name/);
  tab.expectProblem(/400/);
  assert.equal(await page.getByRole('button', { name: 'Remove' }).count(), 0);
  await add(registry.password);
  const remove = page.getByRole('button', { name: `Remove ${registry.host}` });
  await remove.waitFor();
  assert.ok(!(await page.content()).includes(registry.password));
  await remove.click();
  await remove.waitFor({ state: 'detached' });
});

test('names cannot leave their place in the page, and others cannot change what is not theirs', async () => {
  const send = (path: string, as: string, fields: Readonly<Record<string, string>> = {}) =>
    sluice.fetch(path, {
      method: 'POST',
      redirect: 'manual',
      headers: {
        ...{ accept: 'text/html', 'sec-fetch-site': 'same-origin' },
        authorization: `Bearer ${as}`,
      },
      body: new URLSearchParams(fields),
    });
  const made = await send('/view/account/tokens', token, { name: hostile });
  assert.equal(made.status, 200, 'the name is accepted');
  const shown = await made.text();
  assert.match(shown, /&lt;script&gt;x/);
  assert.doesNotMatch(shown, /<script>x|<img/);
  // These are refused, and the page does not repeat them.
  for (const name of ['a\u202eb', 'a\u0000b', `${hostile}${'x'.repeat(10_000)}`]) {
    assert.equal((await send('/view/account/tokens', token, { name })).status, 400);
  }
  const list = await sluice.fetch('/platform/tokens', {
    headers: { authorization: `Bearer ${token}` },
  });
  const { tokens } = (await list.json()) as { tokens: { id: number }[] };
  const other = await newAccessToken(sluice, admin, 'eve@example.org');
  for (const { id } of tokens) {
    assert.equal((await send(`/view/account/tokens/${id}/revoke`, other)).status, 404);
  }
  assert.equal((await send('/view/account/credentials/0123/remove', other)).status, 404);
  const asAccount = await sluice.fetch('/view/account/tokens', {
    method: 'POST',
    headers: { accept: 'text/html', ...basic(admin.name, admin.password) },
    body: new URLSearchParams({ name: 'x' }),
  });
  assert.equal(asAccount.status, 403);
});

test('a member sees the name of a workspace, and the other members only as an administrator', async () => {
  const mate = await newAccessToken(sluice, admin, 'mate@example.org');
  const id = await addWorkspace('laboratory', ['ada@example.org', 'mate@example.org']);
  const headers = { authorization: `Bearer ${mate}` };
  const shown = await sluice.fetch('/view/account', {
    headers: { ...headers, accept: 'text/html' },
  });
  const text = await shown.text();
  assert.match(text, /laboratory/);
  assert.doesNotMatch(text, /ada@example/);
  const api = await sluice.fetch(`/platform/workspaces/${id}/members`, { headers });
  assert.equal(api.status, 403, 'the API refuses the same person');
});

test('the page can be read at every width', async () => {
  for (const width of widths) {
    await using tab = await openAccount(width);
    await requireAccessible(tab.page);
  }
});
